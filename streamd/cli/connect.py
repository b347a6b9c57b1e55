"""How a command reaches a running daemon: one address, and errors that say what to do next.

Everything goes through the Pravega service, with the messages for tools beside Pravega's own.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from streamd.cli.command import FAILED, SERVER, UNAVAILABLE, USAGE, CommandError
from streamd.cli.contexts import context_address
from streamd.client.address import DEFAULT_PORT, parse_address
from streamd.client.blocking import Client, PravegaClient, StorageClient
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken, Refused, Timeout
from streamd.client.storage import StorageTruncated
from streamd.client.target import Options
from streamd.client.tls import client_context

# Something else that listens there may wait for us to say more.
_GREETING_SECONDS_MAX: Final = 10.0

_NOT_THERE: Final = "there is no such topic: 'streamctl topics' lists them, 'streamctl create', or --create, makes one"
_THERE: Final = "there is such a topic already: choose another name, or give --exist-ok"

_WHAT_NEXT: Final = {
    "NoSuchSegment": _NOT_THERE,
    "NoSuchTopicExists": _NOT_THERE,
    "AlreadyExists": _THERE,
    "SegmentExists": _THERE,
    "SegmentAlreadyExists": _THERE,
    "SegmentSealed": "the topic is sealed and takes no more messages: publish to another one",
    "TopicSealed": "the topic is sealed and takes no more messages: publish to another one",
    "SegmentIsSealed": "the topic is sealed and takes no more messages: publish to another one",
    "InvalidData": "that can't be a name: 1 to 255 bytes of UTF-8 without control characters",
    "BadName": "that can't be a name: 1 to 255 bytes of UTF-8 without control characters",
    "ReadOnly": "the daemon takes no writes now: its disk is full, or it is stopping. Free some room",
    "IOError": "the daemon could not do it: its log says why",
    "GroupBusy": "somebody reads in this group: stop its readers first, or give --force",
    "ReadFailed": "the daemon can't read it: its log says why, 'streamctl verify' finds all that is damaged",
}

# What Python's ssl says, in part, and what to do. The first that fits counts.
_TLS_WHAT_NEXT: Final = (
    ("CERTIFICATE_REQUIRED", "it wants to see a certificate: give --cert"),
    ("CERTIFICATE_REVOKED", "your certificate was revoked: get another one"),
    ("CERTIFICATE_EXPIRED", "your certificate has run out, or its list of revoked ones has: its log says which"),
    ("ALERT_UNKNOWN_CA", "it does not trust who issued your certificate: is --cert the one for this daemon?"),
    ("mismatch", "its certificate is for another name: give an address that the certificate has"),
    ("certificate has expired", "its certificate has run out: tell who runs it"),
    ("CERTIFICATE_VERIFY_FAILED", "you do not trust who issued its certificate: give that authority as --ca"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS there: leave out --tls, --ca and --cert, or give another address"),
    ("HANDSHAKE_FAILURE", "you and it could not agree: does it want to see a certificate (--cert)? Its log says why"),
    ("SSL", "its log says why"),
)


SERVER_HELP: Final = f"the daemon: host, host:port, unix:PATH (default: $STREAMD_SERVER, or a context, or {SERVER})"


def add_server_options(parser: argparse.ArgumentParser, server_help: str = SERVER_HELP) -> None:
    """Options of every command that talks to a daemon."""
    parser.add_argument("--server", metavar="ADDRESS", help=server_help)
    parser.add_argument("--context", metavar="NAME", help="the daemon of this context, see 'streamctl context'")
    parser.add_argument("--tls", action="store_true", help="speak TLS")
    parser.add_argument("--ca", metavar="FILE", help="speak TLS, and trust the certificates in this file alone")
    parser.add_argument("--cert", metavar="FILE", help="speak TLS, and show the certificate in this file")
    parser.add_argument("--key", metavar="FILE", help="the key to it (default: in the same file)")


def server_address(options: argparse.Namespace) -> str:
    """Where the daemon is: as given, or as the environment or a context says."""
    named = getattr(options, "context", None)
    if options.server is not None:
        return checked_address("--server", options.server)
    if named is None and (given := os.environ.get("STREAMD_SERVER")):
        return checked_address("$STREAMD_SERVER", given)
    return checked_address("the context", context_address(named) or SERVER)


def checked_address(option: str, address: str) -> str:
    """An address as clients take it: the default port where there is only a host."""
    try:
        return str(parse_address(address, DEFAULT_PORT))
    except ValueError as error:
        raise CommandError(f"{option}: {error}", USAGE)


def _settings(options: argparse.Namespace) -> Options:
    if options.key is not None and options.cert is None:
        raise CommandError("--key is for a certificate: give that as --cert", USAGE)
    if not options.tls and options.ca is None and options.cert is None:
        return {}
    try:
        return {"ssl_context": client_context(options.ca, options.cert, options.key)}
    except ClientError as error:
        raise CommandError(f"TLS: {error}", USAGE)


@contextmanager
def storage(options: argparse.Namespace) -> Iterator[StorageClient]:
    """The daemon's segments and records."""
    address, settings = server_address(options), _settings(options)
    with answered(address, settings):
        _greet(address, settings)
        with StorageClient(address, **settings) as client:
            yield client


@contextmanager
def pravega(options: argparse.Namespace) -> Iterator[PravegaClient]:
    """Who writes events, each once."""
    address, settings = server_address(options), _settings(options)
    with answered(address, settings):
        _greet(address, settings)
        with PravegaClient(address, **settings) as client:
            yield client


@contextmanager
def messages(options: argparse.Namespace) -> Iterator[Client]:
    """Who publishes messages, each once, over restarts of the daemon."""
    address, settings = server_address(options), _settings(options)
    with answered(address, settings), Client(address, **settings) as client:
        yield client


def _greet(address: str, settings: Options) -> None:
    """Whether streamd is there: who writes would try again and again, and others wait long for an answer."""
    patient: Options = {**settings, "reply_seconds_max": _GREETING_SECONDS_MAX}
    with PravegaClient(address, **patient) as client:
        client.ping()


@contextmanager
def about(topic: str) -> Iterator[None]:
    """What the daemon refuses in here is said of this topic."""
    try:
        yield
    except Refused as error:
        shown = topic if topic.isprintable() else ascii(topic)
        raise CommandError(f"{shown}: {what_next(error)}", FAILED)


def what_next(error: Refused) -> str:
    """What a refusal means, and what to do next."""
    if error.reason == "NotAllowed":
        return f"the daemon's rules of access do not let you do that: {str(error).partition(': ')[2]}"
    return _WHAT_NEXT.get(error.reason, f"the daemon refused: {error}")


def _how_to_connect(error: str, is_tls: bool) -> str:
    if is_tls:
        for said, hint in _TLS_WHAT_NEXT:
            if said in error:
                return hint[0].upper() + hint[1:]
    hint = "Is the daemon running, and is this its address? 'listens on' in its log tells"
    return hint if is_tls else f"{hint}. Or does it speak TLS there (--ca)?"


@contextmanager
def answered(address: str, settings: Options) -> Iterator[None]:
    """What a daemon refuses, or the want of one, becomes one line with what to do next."""
    is_tls = "ssl_context" in settings or address.startswith("tls:")
    try:
        yield
    except StorageTruncated as error:
        raise CommandError(f"these messages are gone; the first that is there is {error.number}: give --from 'first'")
    except Refused as error:
        raise CommandError(what_next(error), FAILED)
    except ProtocolBroken as error:
        raise CommandError(
            f"what answers at {address} is not that service of streamd: see 'listens on' in its log ({error})",
            UNAVAILABLE,
        )
    except Timeout as error:
        reasons = f"it is very busy or stopped, {'does not speak TLS there, ' if is_tls else ''}or something else"
        raise CommandError(f"{error}: {reasons} listens there: see 'listens on' in its log", UNAVAILABLE)
    except ConnectionLost as error:
        raise CommandError(f"{error}. {_how_to_connect(str(error), is_tls)}", UNAVAILABLE)
    except ClientError as error:
        raise CommandError(str(error))
    except ValueError as error:
        # An argument that the protocol has no room for; nothing was sent.
        raise CommandError(str(error), USAGE)
