"""How the examples are run."""

from __future__ import annotations

import os
import sys

from tests.rigs.daemon import CHECKOUT

EXAMPLES = CHECKOUT / "docs" / "examples"
# The same for those over QUIC, which also take the file of a certificate to trust.
FUJIN = {
    "fujin_transaction.py": "rolled back: we have no unicorns\norder 1: a bicycle\norder 3: a bell\n"
    "invoice 1: for order 1\n",
    "fujin_share.py": "the first one does job 0\nthe first one does job 2\n"
    "the second one does job 1\nthe second one does job 3\nthe second one does job 4\nthe second one does job 5\n",
}


def command(name: str, address: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / name), address]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
