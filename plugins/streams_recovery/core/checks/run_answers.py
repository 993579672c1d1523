"""What programs that run an application answer, judged field by field. The form is what can be read at all; the sense is what a savepoint and a restore rely
on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Words of KafkaStreams.State, and that of one that is paused.
STREAMS_STATES: Final = (
    *("CREATED", "REBALANCING", "RUNNING", "PAUSED"),
    *("PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR"),
)
_STATES: Final = ("running", "gone", "unknown")
_SHOWN: Final = 80
_TOO_MANY: Final = 2**63

Fits = Callable[[object], bool]
# An answer of an instance, by its fields.
Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """One field that was answered wrongly: where it stands, what was expected there, and what was found."""

    where: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, got {self.found}"


def _text(value: object) -> bool:
    return isinstance(value, str)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < _TOO_MANY


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _or_null(fits: Fits) -> Fits:
    return lambda value: value is None or fits(value)


# By the name of the field: whether it is needed, what is expected, and whether a value is that.
FIELDS: Final[Mapping[str, tuple[bool, str, Fits]]] = {
    "name": (True, "a name", lambda value: isinstance(value, str) and bool(value)),
    "state": (True, f"one of {', '.join(_STATES)}", lambda value: value in _STATES),
    "streams_state": (True, "text or null", _or_null(_text)),
    "closed_cleanly": (True, "true, false or null", _or_null(_flag)),
    "detail": (True, "text", _text),
    "restoring": (False, "a number or null", _or_null(_count)),
    "standby_tasks": (False, "a number or null", _or_null(_count)),
    "commit_interval_ms": (False, "a number or null", _or_null(_count)),
    "client_ids": (False, "a list of texts", _texts),
    "reported_closed": (False, "true or false", _flag),
    "stopped_here": (False, "true, false or null", _or_null(_flag)),
    "host": (False, "text", _text),
    "program_runs": (False, "true or false", _flag),
    "restarts": (False, "a number", _count),
    "silent": (False, "true or false", _flag),
}


def wrong_form(found: object) -> tuple[Wrong, ...]:
    """What keeps a list of instances from being read."""
    if not isinstance(found, list) or not found:
        return (Wrong(where="the answer", expected="a list with every instance, gone ones included", found=_shown(found)),)
    return tuple(wrong for number, one in enumerate(found) for wrong in _wrong_fields(number, one))


def _wrong_fields(number: int, one: object) -> Iterable[Wrong]:
    if not isinstance(one, dict):
        yield Wrong(where=f"[{number}]", expected="an object with the fields of an instance", found=_shown(one))
        return
    for name, (needed, expected, fits) in FIELDS.items():
        if name not in one:
            if needed:
                yield Wrong(where=f"[{number}].{name}", expected=expected, found="no such field")
        elif not fits(one[name]):
            yield Wrong(where=f"[{number}].{name}", expected=expected, found=_shown(one[name]))
    for name in sorted(set(one) - set(FIELDS)):
        yield Wrong(where=f"[{number}].{name[:_SHOWN]}", expected="no such field", found=_shown(one[name]))


def wrong_sense(instances: Sequence[Fields]) -> tuple[Wrong, ...]:
    """What contradicts itself in answers of the right form, or leaves out what is relied on."""
    twice = [name for name, count in Counter(str(one["name"]) for one in instances).items() if count > 1]
    doubled = tuple(Wrong(where=f"{name}.name", expected="a name that no other instance has", found="two of them") for name in twice)
    return (*doubled, *(wrong for one in instances for wrong in _senseless(one)))


def _senseless(one: Fields) -> Iterable[Wrong]:
    gone, said, clean = one["state"] == "gone", one["streams_state"], one["closed_cleanly"]
    if gone and said is not None:
        yield _wrong(one, "streams_state", "null of one that is gone")
    if gone is (clean is None):
        yield _wrong(one, "closed_cleanly", "true or false of one that is gone" if gone else "null as long as it is not gone")
    if said is not None and said not in STREAMS_STATES:
        yield _wrong(one, "streams_state", f"one of {', '.join(STREAMS_STATES)}, or null")
    if one["state"] == "running" and said is None and not one.get("silent") and one.get("program_runs", True):
        yield _wrong(one, "streams_state", 'what it says of itself, or "silent": true where it cannot')
    if not gone and one.get("stopped_here") is not None:
        yield _wrong(one, "stopped_here", "null, or no such field, as long as it is not gone")


def wrong_after(verb: str, instances: Sequence[Fields], names: Iterable[str]) -> tuple[Wrong, ...]:
    """What a verb did not reach. ``names`` are the instances as they were before it: they keep their names."""
    found = [str(one["name"]) for one in instances]
    missing = [Wrong(where=name, expected="the instance, by the same name as before", found="none") for name in names if name not in found]
    wrong = [one for each in instances for one in _AFTER[verb](each)]
    return (*missing, *wrong)


def _stopped(one: Fields) -> Iterable[Wrong]:
    if one["state"] != "gone":
        yield _wrong(one, "state", "gone")
    elif one["closed_cleanly"] is not True:
        yield _wrong(one, "closed_cleanly", "true: it was asked to end, and ended by itself")
    if one.get("stopped_here") is False:
        yield _wrong(one, "stopped_here", "true, or no such field")


def _started(one: Fields) -> Iterable[Wrong]:
    if one["state"] != "running":
        yield _wrong(one, "state", "running")
    elif one["streams_state"] != "RUNNING":
        yield _wrong(one, "streams_state", "RUNNING")


def _paused(one: Fields) -> Iterable[Wrong]:
    if one["streams_state"] != "PAUSED":
        yield _wrong(one, "streams_state", "PAUSED")


def _resumed(one: Fields) -> Iterable[Wrong]:
    if one["streams_state"] in (None, "PAUSED"):
        yield _wrong(one, "streams_state", "RUNNING, or another state but PAUSED")


_AFTER: Final[Mapping[str, Callable[[Fields], Iterable[Wrong]]]] = {
    "stop": _stopped,
    "start": _started,
    "pause": _paused,
    "resume": _resumed,
}


def _wrong(one: Fields, name: str, expected: str) -> Wrong:
    return Wrong(where=f"{one['name']}.{name}", expected=expected, found=_shown(one.get(name)))


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
