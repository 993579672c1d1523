"""Queries by key to a running application: what is asked, what of an answer is believed, and which instance has a key. Pure.

An answer comes over the network, from an instance that may be wrong or not be what it says. So every part has its type and its bound, and the owner that it
names counts only if it is one of the application's own instances.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard
from urllib.parse import urlsplit

from streams_recovery.core.answers import is_answer, readable_text
from streams_recovery.core.codec import document
from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.kafka_types import WINDOWED, StoreKind
from streams_recovery.core.state.table import Cell, Format, ValueFormat, decoded

MOST_WINDOWS: Final = 1_000
# Longer ones do not fit into the first line of a request of most servers.
_LONGEST_KEY: Final = 4_000
_LONGEST_HOST: Final = 253
_PORTS: Final = range(1, 1 << 16)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_JAVA_NAMES: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# Kafka has no time that is later.
_LATEST: Final = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyQuestion:
    """A ``key`` of a ``store`` as text, with times as in ``check_times``. Raises ``ConfigInvalid`` for a key that cannot be asked."""

    store: str
    key: str
    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.key.encode(errors="replace")) <= _LONGEST_KEY:
            raise ConfigInvalid(
                f"a key is asked with 1 to {_LONGEST_KEY} bytes",
                next_step="look it up in a savepoint: `streams-recovery state get` without --ask",
            )
        check_times(self.start, self.end)

    @property
    def bounds(self) -> dict[str, int]:
        """The parameters of a request."""
        return {name: value for name, value in (("from", self.start), ("to", self.end)) if value is not None}


def check_times(start: int | None, end: int | None) -> None:
    """``start`` and ``end`` (ms) bound windows and sessions. Raises ``ConfigInvalid`` where the time ends before it begins."""
    if start is not None and end is not None and start > end:
        raise ConfigInvalid("the time ends before it begins", next_step="correct --from and --to", start=start, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWindow:
    """One window or session of a key. ``end`` (ms) is None if the store does not tell."""

    start: int
    end: int | None
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAnswer:
    """An answer of ``instance`` about a key. ``windows`` are None for a store without windows; ``more`` says that the store has more of them."""

    instance: str
    found: bool
    value: Any = None
    windows: tuple[KeyWindow, ...] | None = None
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedOwner:
    """The address of the active instance of a key, as another instance says."""

    host: str
    port: int

    def among(self, urls: Mapping[str, str]) -> str | None:
        """The name of the instance that has this address; None if none has it, or if it cannot be told which. No name is looked up on the network."""
        exact = [name for name, url in urls.items() if self._is(url, str)]
        same = exact or [name for name, url in urls.items() if self._is(url, _machine)]
        return same[0] if len(same) == 1 else None

    def _is(self, url: str, machine: Any) -> bool:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        return port == self.port and machine(_plain(parts.hostname or "")) == machine(_plain(self.host))


def _plain(host: str) -> str:
    name = host.strip("[]").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _machine(host: str) -> str:
    """All names of this machine are one."""
    try:
        return "localhost" if ipaddress.ip_address(host).is_loopback else host
    except ValueError:
        return host


def owner_of(found: Mapping[str, object], *, where: str) -> NamedOwner:
    """The owner that an answer names. Raises ``Damaged`` for what is no address."""
    host, port = found.get("host"), found.get("port")
    if not isinstance(host, str) or not 0 < len(host) <= _LONGEST_HOST or type(port) is not int or port not in _PORTS:
        raise Damaged(f"{where} names no owner with a host and a port", next_step="check what answers there", where=where)
    return NamedOwner(host=host, port=port)


def answer_of(found: Mapping[str, object], *, instance: str, where: str) -> KeyAnswer | None:
    """The answer about a key; None if there is none in it. Raises ``Damaged`` for one that contradicts itself."""
    if not isinstance(found.get("found"), bool):
        return None
    if not found["found"]:
        return KeyAnswer(instance=instance, found=False)
    if "windows" not in found:
        if "value" not in found:
            raise Damaged(f"{where} has found a key and says no value", next_step="check what answers there", where=where)
        return KeyAnswer(instance=instance, found=True, value=found["value"])
    windows = found["windows"]
    if not isinstance(windows, list) or not 0 < len(windows) <= MOST_WINDOWS:
        raise Damaged(f"{where} has found windows, and not 1 to {MOST_WINDOWS} of them", next_step="check what answers there", where=where)
    shown = tuple(_window(one, where) for one in windows)
    return KeyAnswer(instance=instance, found=True, windows=shown, more=found.get("more") is True)


def answer_fields(answer: KeyAnswer) -> dict[str, Any]:
    """An answer as an application gives it, so that ``answer_of`` reads it again."""
    if not answer.found:
        return {"found": False, "instance": answer.instance}
    if answer.windows is None:
        return {"found": True, "value": answer.value, "instance": answer.instance}
    windows = [{"start": one.start, "end": one.end, "value": one.value} for one in answer.windows]
    return {"found": True, "windows": windows, "more": answer.more, "instance": answer.instance}


def _window(one: object, where: str) -> KeyWindow:
    if isinstance(one, dict) and "value" in one:
        start, end = one.get("start"), one.get("end")
        if _is_time(start) and (end is None or _is_time(end)):
            return KeyWindow(start=start, end=end, value=one["value"])
    raise Damaged(f"{where} has a window without a start and a value", next_step="check what answers there", where=where)


def _is_time(value: object) -> TypeGuard[int]:
    return type(value) is int and -_LATEST <= value < _LATEST


def same_value(form: ValueFormat, cell: Cell, answer: object) -> bool | None:
    """True if an application's answer is the value of a cell in this format. None if the formats cannot be compared: bytes, and Avro, which an application may
    show in its own way.
    """
    if form.format in (Format.LONG, Format.INTEGER):
        return type(answer) is int and answer == cell
    if form.format is Format.DOUBLE:
        # A number that JSON has no word for is shown as Java names it.
        return answer == cell if type(answer) in (int, float) else str(cell) in _JAVA_NAMES and answer == _JAVA_NAMES[str(cell)]
    if form.format is Format.STRING:
        return answer == cell if isinstance(answer, str) else None
    if form.format is Format.JSON:
        return bool(document(str(cell)) == answer)
    if form.format is Format.AVRO:
        return True if document(str(cell)) == answer else None
    return None


def key_text(form: ValueFormat, key: bytes) -> str | None:
    """A key as it is asked for. None for one that cannot be shown as text, or is too long to be asked for."""
    if len(key) > _LONGEST_KEY:
        return None
    if form.format in (Format.LONG, Format.INTEGER, Format.DOUBLE):
        try:
            return str(decoded(form.format, key))
        except ConfigInvalid:
            return None
    return None if form.format is Format.AVRO else readable_text(key)


def as_answered(form: ValueFormat, data: bytes | None, answer: KeyAnswer) -> bool | None:
    """True if an answer equals the ``data`` that a changelog has for a key, None for a deleted key. The result is None if that cannot be told, also for bytes
    that do not have the format.
    """
    if data is None or not answer.found:
        return data is None and not answer.found
    if form.format is Format.BYTES:
        return is_answer(data, answer.value)
    if form.format is Format.AVRO:
        return None
    try:
        return same_value(form, decoded(form.format, data), answer.value)
    except ConfigInvalid:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedValue:
    """A savepoint's value of a key, or of one window or session of it. ``value`` is None for a deleted one."""

    value: Cell | None
    start: int | None = None
    end: int | None = None


def agrees(kind: StoreKind, form: ValueFormat, saved: Sequence[SavedValue], live: KeyAnswer) -> bool | None:
    """True if a running application has the same value for a key as a savepoint. None if that cannot be told: see ``same_value``, or if the answer leaves out
    windows.
    """
    there = {(one.start, one.end): one.value for one in saved if one.value is not None}
    if len(there) < sum(one.value is not None for one in saved) or live.more:
        return None
    if kind in WINDOWED:
        if live.found and live.windows is None:
            return None
        now: dict[tuple[int | None, int | None], Any] = {
            (one.start, one.end if kind is StoreKind.SESSION else None): one.value for one in live.windows or ()
        }
    elif kind in (StoreKind.KEY_VALUE, StoreKind.VERSIONED) and live.windows is None:
        now = {(None, None): live.value} if live.found else {}
    else:
        return None
    if len(now) < len(live.windows or ()):
        return None
    if there.keys() != now.keys():
        return False
    found = [same_value(form, value, now[at]) for at, value in there.items()]
    return False if False in found else None if None in found else True
