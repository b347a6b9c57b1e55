"""Commands: one coroutine, a method that blocks and one that is awaited, for type checkers and for help()."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from types import MemberDescriptorType
from typing import Any, assert_type

from twisted.trial.unittest import SynchronousTestCase

from streamd.client import asynchronous, blocking
from streamd.client.core.commands import Method
from streamd.client.fujin import FujinClient, Reader, Writer
from streamd.wire.tools import Run


def methods(kind: type) -> dict[str, Any]:
    """All commands and streams of a class, as the class has them."""
    names = [name for base in kind.__mro__ for name, value in vars(base).items() if isinstance(value, Method)]
    return {name: getattr(kind, name) for name in names}


def pairs() -> list[tuple[type, type]]:
    """The blocking and the asynchronous class of each name."""
    return [(getattr(blocking, name), getattr(asynchronous, name)) for name in blocking.__all__]


class MethodTests(SynchronousTestCase):
    def test_same(self) -> None:
        """Both kinds of client have the same names, with the same methods, arguments and docstrings."""
        self.assertEqual(blocking.__all__, asynchronous.__all__)
        for blocks, awaited in pairs():
            self.assertEqual(blocks.__doc__ is None, awaited.__doc__ is None)
            self.assertEqual(methods(blocks).keys(), methods(awaited).keys())
            for name, method in methods(blocks).items():
                other = methods(awaited)[name]
                self.assertEqual(inspect.signature(method).parameters, inspect.signature(other).parameters)
                self.assertEqual(method.__doc__, other.__doc__)

    def test_help(self) -> None:
        """Each method has a docstring, its own arguments, and the type that it returns or is awaited for."""
        classes = [kind for pair in pairs() for kind in pair]
        self.assertGreater(sum(len(methods(kind)) for kind in classes), 70)
        for kind in (*classes, Writer, Reader):
            for name, method in methods(kind).items():
                self.assertTrue(inspect.getdoc(method), name)
                signature = inspect.signature(method)
                self.assertEqual(next(iter(signature.parameters)), "self")
                self.assertNotIn("args", signature.parameters)
                self.assertNotRegex(str(signature.return_annotation), "Feed|Steps|Coroutine|Answer")

    def test_awaited(self) -> None:
        """Methods of asynchronous clients are coroutines or asynchronous iterators, those of blocking ones neither."""
        for blocks, awaited in pairs():
            for name, method in methods(blocks).items():
                other = methods(awaited)[name]
                is_stream = "Iterator" in str(inspect.signature(method).return_annotation)
                self.assertEqual(inspect.isgeneratorfunction(method), is_stream)
                self.assertEqual(inspect.isasyncgenfunction(other), is_stream)
                self.assertEqual(inspect.iscoroutinefunction(other), not is_stream)
                self.assertFalse(inspect.iscoroutinefunction(method))

    def test_public(self) -> None:
        """Nothing of the core is a public attribute of a client."""
        for kind in (*(kind for pair in pairs() for kind in pair), FujinClient, Writer, Reader):
            for name in dir(kind):
                if not name.startswith("_"):
                    value = inspect.getattr_static(kind, name)
                    self.assertTrue(inspect.getdoc(getattr(kind, name)), f"{kind.__name__}.{name}")
                    self.assertIsInstance(value, (Method, property, type(pairs), MemberDescriptorType))


def check_blocking(sesp: blocking.SespClient, pravega: blocking.PravegaClient, tools: blocking.StorageClient) -> None:
    """What a type checker says of blocking clients. Not run."""
    assert_type(sesp.connect(), blocking.SespClient)
    assert_type(sesp.topics(), list[str])
    assert_type(sesp.topic("t"), blocking.Topic)
    assert_type(sesp.topic("t").read(), Iterator[bytes])
    assert_type(next(pravega.reader("s")), bytes)
    assert_type(tools.level(1, b""), int | None)
    assert_type(tools.read(1, 0, bytes_max=1), Iterator[Run])
    with pravega.writer("s", replay=True) as writer:
        assert_type(writer, blocking.Writer)
    sesp.create(1)  # type: ignore[arg-type]
    sesp.create("t", "u")  # type: ignore[call-arg]


async def check_asynchronous(sesp: asynchronous.SespClient, pravega: asynchronous.PravegaClient) -> None:
    """What a type checker says of asynchronous clients. Not run."""
    assert_type(await sesp.connect(), asynchronous.SespClient)
    assert_type(await sesp.topics(), list[str])
    assert_type(sesp.topic("t"), asynchronous.Topic)
    assert_type(sesp.topic("t").read(), AsyncIterator[bytes])
    assert_type(await anext(pravega.reader("s")), bytes)
    async with pravega.writer("s", replay=True) as writer:
        assert_type(writer, asynchronous.Writer)
    await sesp.create(1)  # type: ignore[arg-type]
    sesp.create("t")  # type: ignore[unused-coroutine]
