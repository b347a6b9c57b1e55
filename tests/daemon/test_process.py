"""What the daemon changes in its process."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.daemon.process import EXIT_IO, Process
from tests.rigs.daemon import CHECKOUT


class ProcessTests(SynchronousTestCase):
    def test_file_limit(self) -> None:
        """Too few open files for what is configured is a warning that says what to do."""
        events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        process = Process(Clock())
        self.addCleanup(process.restore)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        process.prepare(1)
        self.assertEqual(list(events), [])
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE), (hard, hard))
        process.prepare(hard + 1)
        self.assertEqual([(event["files"], event["wanted"]) for event in events], [(hard, hard + 1)])
        process.restore()
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE), (soft, hard))

    def fatal(self, script: str) -> subprocess.CompletedProcess[str]:
        """A process in which another thread than the main one calls fatal."""
        text = f"import threading\nfrom streamd.daemon.process import fatal\n{script}"
        return subprocess.run(
            [sys.executable, "-c", text], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, timeout=60, check=False
        )

    def test_fatal(self) -> None:
        """It says why and ends with its own status, from any thread, whatever else goes on."""
        ended = self.fatal(
            "import sys\n"
            "from twisted.logger import globalLogBeginner, textFileLogObserver\n"
            "globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)])\n"
            "threading.Thread(target=fatal, args=['fdatasync: Input/output error']).start()\n"
            "threading.Event().wait()\n"
        )
        self.assertEqual(ended.returncode, EXIT_IO)
        self.assertIn("#critical] fdatasync: Input/output error\n", ended.stdout)

    def test_fatal_with_a_dead_log(self) -> None:
        """A log that takes nothing, or fails, can't keep it alive."""
        for observer in ("lambda event: threading.Event().wait()", "lambda event: 1 / 0"):
            ended = self.fatal(
                "from twisted.logger import globalLogBeginner\n"
                f"globalLogBeginner.beginLoggingTo([{observer}])\n"
                "threading.Thread(target=fatal, args=['x']).start()\n"
                "threading.Event().wait()\n"
            )
            self.assertEqual(ended.returncode, EXIT_IO)
