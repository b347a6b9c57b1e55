"""``python -m streamd.cli`` is ``streamctl``."""

from __future__ import annotations

import sys

from streamd.cli import main

sys.exit(main())
