"""How a command reaches a running daemon: two of its services, and errors that say what to do next.

Segments and records go through the Pravega service, with the messages for tools beside Pravega's own; what SESP alone
can do (delete, seal, truncate, the state of the daemon) goes through that.
"""

from __future__ import annotations

import argparse
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from streamd.cli.command import FAILED, SERVER, UNAVAILABLE, USAGE, CommandError
from streamd.client.address import TcpAddress, parse_address
from streamd.client.blocking import PravegaClient, SespClient, StorageClient
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken, Refused, Timeout
from streamd.client.storage import StorageTruncated
from streamd.client.target import Options

SESP_PORT: Final = 4840
"""Where a daemon that was told nothing else serves SESP."""

_WHAT_NEXT: Final = {
    "NoSuchSegment": "there is no such topic: 'streamctl topics' lists them, 'streamctl create' makes one",
    "NoSuchTopicExists": "there is no such topic: 'streamctl topics' lists them, 'streamctl create' makes one",
    "AlreadyExists": "there is such a topic already",
    "SegmentExists": "there is such a topic already",
    "SegmentAlreadyExists": "there is such a topic already",
    "TopicSealed": "the topic is sealed and takes no more messages: publish to another one",
    "SegmentIsSealed": "the topic is sealed and takes no more messages: publish to another one",
    "InvalidData": "that can't be the name of a topic: 1 to 255 bytes of UTF-8 without control characters",
    "BadName": "that can't be the name of a topic: 1 to 255 bytes of UTF-8 without control characters",
    "ReadOnly": "the daemon takes no writes now: its disk is full, or it is stopping. Free some room",
    "IOError": "the daemon could not do it: its log says why",
    "NotAllowed": "the daemon's rules of access do not let you do that: ask who runs it",
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


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that talks to a daemon."""
    parser.add_argument(
        "--server", metavar="ADDRESS", help=f"the daemon's Pravega service (default: $STREAMD_SERVER or {SERVER})"
    )
    parser.add_argument(
        "--sesp",
        metavar="ADDRESS",
        help=f"its SESP service (default: $STREAMD_SESP or port {SESP_PORT} of the same host)",
    )
    parser.add_argument("--tls", action="store_true", help="speak TLS to both")
    parser.add_argument("--ca", metavar="FILE", help="speak TLS, and trust the certificates in this file alone")
    parser.add_argument("--cert", metavar="FILE", help="speak TLS, and show the certificate in this file")
    parser.add_argument("--key", metavar="FILE", help="the key to it (default: in the same file)")


def server_address(options: argparse.Namespace) -> str:
    """Where the Pravega service is."""
    return _checked("--server", options.server or os.environ.get("STREAMD_SERVER") or SERVER)


def sesp_address(options: argparse.Namespace) -> str:
    """Where SESP is: as given, or where a daemon at the same host has it."""
    if given := options.sesp or os.environ.get("STREAMD_SESP"):
        return _checked("--sesp", given)
    server = parse_address(server_address(options))
    if not isinstance(server, TcpAddress):
        raise CommandError(f"this command speaks SESP too: with --server {server}, give its address as --sesp", USAGE)
    return str(TcpAddress(server.host, SESP_PORT))


def _checked(option: str, address: str) -> str:
    try:
        return str(parse_address(address))
    except ValueError as error:
        raise CommandError(f"{option}: {error}", USAGE)


def _settings(options: argparse.Namespace) -> Options:
    if options.key is not None and options.cert is None:
        raise CommandError("--key is for a certificate: give that as --cert", USAGE)
    if not options.tls and options.ca is None and options.cert is None:
        return {}
    try:
        context = ssl.create_default_context(cafile=options.ca)
    except OSError as error:
        raise CommandError(f"--ca {options.ca}: {error.strerror or error}", USAGE)
    if options.cert is not None:
        try:
            # Who has a key with a password is not asked for it: a command may have nobody to ask.
            context.load_cert_chain(options.cert, options.key, password=_no_password)
        except ssl.SSLError:
            where = f"in {options.key}" if options.key is not None else "in the same file (else give --key)"
            raise CommandError(
                f"--cert {options.cert}: expected a certificate in it, and its key {where}, as PEM", USAGE
            )
        except OSError as error:
            files = " or ".join(each for each in (options.cert, options.key) if each is not None)
            raise CommandError(f"--cert, --key: {files}: {error.strerror}", USAGE)
    return {"ssl_context": context}


def _no_password() -> str:
    raise CommandError("--key: the key has a password: give one without ('openssl pkey' takes it off)", USAGE)


@contextmanager
def storage(options: argparse.Namespace) -> Iterator[StorageClient]:
    """The daemon's segments and records."""
    address, settings = server_address(options), _settings(options)
    with answered(address, settings), StorageClient(address, **settings) as client:
        yield client


@contextmanager
def sesp(options: argparse.Namespace) -> Iterator[SespClient]:
    """The daemon's topics, as its administrator sees them."""
    address, settings = sesp_address(options), _settings(options)
    with answered(address, settings), SespClient(address, **settings) as client:
        yield client


@contextmanager
def pravega(options: argparse.Namespace) -> Iterator[PravegaClient]:
    """Who writes events, each once."""
    address, settings = server_address(options), _settings(options)
    with answered(address, settings), PravegaClient(address, **settings) as client:
        yield client


def _how_to_connect(error: str, settings: Options) -> str:
    if "ssl_context" in settings:
        for said, hint in _TLS_WHAT_NEXT:
            if said in error:
                return hint[0].upper() + hint[1:]
    hint = "Is the daemon running, and is this its address? 'listens on' in its log tells"
    return hint if "ssl_context" in settings else f"{hint}. Or does it speak TLS there (--ca)?"


@contextmanager
def answered(address: str, settings: Options) -> Iterator[None]:
    """What a daemon refuses, or the want of one, becomes one line with what to do next."""
    try:
        yield
    except StorageTruncated as error:
        raise CommandError(f"these messages are gone; the first that is there is {error.number}: give --from 'first'")
    except Refused as error:
        raise CommandError(_WHAT_NEXT.get(error.reason, f"the daemon refused: {error}"), FAILED)
    except ProtocolBroken as error:
        raise CommandError(
            f"what answers at {address} is not that service of streamd: see 'listens on' in its log ({error})",
            UNAVAILABLE,
        )
    except Timeout as error:
        more = ", or does it not speak TLS there" if "ssl_context" in settings else ""
        raise CommandError(f"{error}: is it very busy, or stopped{more}?", UNAVAILABLE)
    except ConnectionLost as error:
        raise CommandError(f"{error}. {_how_to_connect(str(error), settings)}", UNAVAILABLE)
    except ClientError as error:
        raise CommandError(str(error))
    except ValueError as error:
        # An argument that the protocol has no room for; nothing was sent.
        raise CommandError(str(error), USAGE)
