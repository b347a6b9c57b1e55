"""Asynchronous clients on Twisted's reactor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet import defer
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.trial.unittest import TestCase

from tests.rigs.client.suite import Operation, Suite


class TwistedTests(Suite, TestCase):
    options = {"reactor": installed}
    cancelled = defer.CancelledError

    def carry_out(self, operation: Operation) -> Deferred[Any]:
        return Deferred.fromCoroutine(operation)

    def begin(self, operation: Operation) -> Any:
        return Deferred.fromCoroutine(operation)

    def together(self, *operations: Operation) -> Any:
        return gatherResults(map(Deferred.fromCoroutine, operations), consumeErrors=True)

    def tls(self, certificate: str) -> Any:
        return optionsForClientTLS("localhost", trustRoot=Certificate.loadPEM(Path(certificate).read_bytes()))
