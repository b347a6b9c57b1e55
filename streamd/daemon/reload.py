"""SIGHUP: the configuration and the certificates are read again, and what can change without a restart changes.

All or nothing: a file with one wrong value, or a certificate that can't be used, changes nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from twisted.internet.endpoints import SSL4ServerEndpoint
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger

from streamd.access.exposure import is_open_to_everybody
from streamd.access.peer import address_text
from streamd.config import Config
from streamd.connections.core import Core
from streamd.groups import Groups
from streamd.interfaces import ConfigError, IReloadable

# Of these every key can change; of all others none can.
_CHANGING = ("access", "groups", "insecure", "limits", "log.level", "retention")


class Reloader:
    """Applies what an operator has changed in the configuration, and logs it."""

    _log = Logger()

    def __init__(
        self,
        config: Config,
        read: Callable[[], Config],
        core: Core,
        set_level: Callable[[str], None],
    ) -> None:
        self.config = config
        """The configuration in force."""
        self._read = read
        self._core = core
        self._set_level = set_level
        self._endpoints: list[tuple[str, Any]] = []
        self._listeners: list[tuple[str, str, IAddress]] = []

    def watch(self, name: str, endpoint: Any) -> None:
        """Reread the certificates of this endpoint at each reload, where it has any."""
        self._endpoints.append((name, endpoint))

    def listens(self, name: str, endpoint: str, address: IAddress) -> None:
        """Note that a service listens at this address: no reload may open it to everybody."""
        self._listeners.append((name, endpoint, address))

    def reload(self) -> None:
        """Read the configuration and the certificates again, and apply them."""
        try:
            wanted = self._read()
            self._check(wanted)
            apply = [
                (name, endpoint.reread()) for name, endpoint in self._endpoints if IReloadable.providedBy(endpoint)
            ]
        except (ConfigError, ValueError) as error:
            # ValueError: a certificate.
            self._log.error("the configuration is refused and nothing is changed: {reason}", reason=str(error))
            return
        self._apply(wanted)
        for name, put_in_force in apply:
            put_in_force()
            self._log.info("{service} uses the certificate that its files have now", service=name)
        for name, endpoint in self._endpoints:
            if isinstance(endpoint, SSL4ServerEndpoint):
                self._log.warn("{service} keeps its certificate: ssl: can't change it, tlsfile: can", service=name)
        self._log.info("the configuration was read again")

    def _check(self, wanted: Config) -> None:
        for name, endpoint, address in self._listeners:
            if is_open_to_everybody(wanted, endpoint, address):
                what = f"{name} on {address_text(address)}"
                raise ConfigError(f"access: {what} would be open to everybody; keep a rule, or set insecure")

    def _apply(self, wanted: Config) -> None:
        before, now = _flat(self.config), _flat(wanted)
        changed = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        for key in changed:
            if _can_change(key):
                self._tell(key, before.get(key), now.get(key))
            else:
                self._log.warn("{key} has changed in the file, and needs a restart", key=key)
        core = self._core
        core.limits = core.load.limits = wanted.limits
        groups = Groups.of(core)
        groups.rules.replace(wanted.groups)
        groups.limits_changed()
        self._set_level(wanted.log.level)
        if core.store.retention is not None:
            core.store.retention.replace(wanted.retention)
        if any(key == "access" or key.startswith("limits.") for key in changed):
            core.access.replace(wanted.access, core.clock.seconds())
        self.config = replace(
            self.config,
            limits=wanted.limits,
            log=replace(self.config.log, level=wanted.log.level),
            retention=wanted.retention,
            access=wanted.access,
            groups=wanted.groups,
            insecure=wanted.insecure,
        )

    def _tell(self, key: str, before: Any, now: Any) -> None:
        if isinstance(now, tuple):
            self._log.info("{key} is changed: {count} rules, was {before}", key=key, count=len(now), before=len(before))
        else:
            self._log.info("{key} is {value} now, was {before}", key=key, value=now, before=before)


def _can_change(key: str) -> bool:
    return key in _CHANGING or key.partition(".")[0] in _CHANGING


def _flat(config: Config) -> dict[str, Any]:
    """Every value of a configuration by its key in the file; rules as a whole."""
    flat: dict[str, Any] = {
        "data_dir": config.data_dir,
        "insecure": config.insecure,
        "retention": config.retention,
        "access": config.access,
        "groups": config.groups,
    }
    for name in ("log", "store", "limits"):
        flat.update(_fields(name, getattr(config, name)))
    by_name: dict[str, list[Any]] = {}
    for service in config.services:
        by_name.setdefault(service.protocol.name, []).append(service)
    for name, services in by_name.items():
        flat.update(_service(name, services))
    return flat


def _service(name: str, services: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    yield f"{name}.endpoint", [service.endpoint for service in services]
    for number, service in enumerate(services, 1):
        yield from _fields(name if len(services) == 1 else f"{name}[{number}]", service.settings)


def _fields(name: str, settings: Any) -> Iterable[tuple[str, Any]]:
    if settings is not None:
        for field in fields(settings):
            yield f"{name}.{field.name}", getattr(settings, field.name)
