"""Texts that people read and write: sizes, lengths of time, lists of names, moments, commands and ids.

Durations are those of ISO 8601 that Kafka's own tools accept. A moment is parsed to the millisecond, and must have a time zone or an offset:

    2026-11-21T12:00:00Z
    2026-11-21T13:00:00+01:00
    2026-11-21T13:00:00 Europe/Vienna

A time that the clocks of a named zone skip, or show twice, is refused. A time with an offset is always unambiguous.

Ids of savepoints and restores sort by time, and contain a digest of the run that created them.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition

_SIZES: Final = ("B", "kB", "MB", "GB", "TB", "PB")
# From here on a size has the next unit, or no decimal.
_THREE_DIGITS, _TWO_DIGITS = 999.5, 99.5
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
# From ten minutes on seconds do not matter.
_SECONDS_COUNT: Final = 10 * _MINUTE
# From so many days on hours do not matter.
_MANY_DAYS: Final = 3


def count(number: float) -> str:
    """A whole number as every screen shows it: ``1,204,551``."""
    return f"{round(number):,}"


def size(count: float) -> str:
    """Bytes with the unit in which they are short, powers of 1000: ``38.2 GB``, ``512 B``."""
    value, unit = float(count), 0
    while abs(value) >= _THREE_DIGITS and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_SIZES[unit]}" if unit == 0 or abs(value) >= _TWO_DIGITS else f"{value:.1f} {_SIZES[unit]}"


def span(seconds: float) -> str:
    """The two largest units that count, without seconds from ten minutes on: ``4 min``, ``3 h 12 min``, ``12 days``, ``0.4 s``."""
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    days, rest = divmod(round(seconds) if seconds < _SECONDS_COUNT else round(seconds / _MINUTE) * _MINUTE, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, left = divmod(rest, _MINUTE)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (left, "s")]
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = parts[first : first + (1 if days >= _MANY_DAYS else 2)]
    return " ".join(f"{count} {unit}" for count, unit in shown if count) or "0 s"


def first_names(names: Collection[str] | Collection[TopicPartition], most: int = 5) -> str:
    """The first ``most`` in their order, and how many more there are."""
    shown = ", ".join(map(str, sorted(names)[:most]))
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


_DURATION = re.compile(r"P(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?")


def milliseconds(text: str) -> int:
    """Milliseconds of ``P7D``, ``PT6H`` or ``P1DT2H30M``. Raises ``ConfigInvalid``, also for months and years, whose length varies."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ConfigInvalid(f"{text[:80]!r} is not a duration", next_step="write it like P7D, PT6H or P1DT2H30M")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) // timedelta(milliseconds=1)


def duration(seconds: float) -> str:
    """The shortest text for whole ``seconds`` that ``milliseconds`` reads."""
    hours, rest = divmod(int(seconds), 3600)
    days, hours = divmod(hours, 24)
    time = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (rest // 60, "M"), (rest % 60, "S")) if number)
    return f"P{days}D{'T' if time else ''}{time}" if days else f"PT{time or '0S'}"


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The end of the year 9999, in milliseconds.
LAST_MOMENT = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
_SHOWN = 80
_WITH_ZONE = re.compile(r"(.+?) +([A-Za-z][A-Za-z0-9_+/-]*)")


def parse_moment(text: str) -> int:
    """Milliseconds since the epoch, rounded down. Raises ``ConfigInvalid`` for text that is not a time, has no time zone, or is skipped or ambiguous
    in its zone.
    """
    named = _WITH_ZONE.fullmatch(text.strip())
    try:
        found = datetime.fromisoformat(named[1] if named else text.strip())
    except ValueError as error:
        raise ConfigInvalid(
            f"{text[:_SHOWN]!r} is not a time", next_step="write it with date and time zone, such as 2026-11-21T12:00:00Z"
        ) from error
    if named:
        found = _in_zone(found, named[2], text[:_SHOWN])
    if found.tzinfo is None:
        raise ConfigInvalid(
            f"{text[:_SHOWN]!r} has no time zone; it could mean moments a day apart",
            next_step=f"add one, such as {text[:40]}Z or {text[:40]}+01:00",
        )
    return (found - EPOCH) // timedelta(milliseconds=1)


def moment(milliseconds: int) -> str:
    """A timestamp in UTC for people. A timestamp outside the calendar is shown as its number of milliseconds."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
        return f"{milliseconds} ms"


def _in_zone(written: datetime, name: str, text: str) -> datetime:
    if written.tzinfo is not None:
        raise ConfigInvalid(f"{text!r} has two time zones", next_step="leave one of them out")
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigInvalid(
            f"{text!r}: there is no time zone {name!r} here", next_step="write one such as Europe/Vienna, or an offset such as +01:00"
        ) from error
    first, second = written.replace(tzinfo=zone, fold=0), written.replace(tzinfo=zone, fold=1)
    if first.utcoffset() == second.utcoffset():
        return first
    # A skipped time is different after a conversion to UTC and back.
    skipped = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != written
    offsets = " and ".join(sorted(one.isoformat() for one in (first, second)))
    raise ConfigInvalid(
        f"{text!r} is no moment: clocks in {name} {'skip it' if skipped else f'show it twice, as {offsets}'}",
        next_step=f"write the moment that is meant with its offset{'' if skipped else ', as one of these'}",
        moments=[] if skipped else sorted(one.isoformat() for one in (first, second)),
    )


PROGRAM = "streams-recovery"
_RAW = "\udc80\udcff"
_APPROVE, _PLAN, _CONFIGS = "--approve", "--plan", "--configs"


def command(*words: str) -> str:
    """A command of this program, quoted for a shell."""
    return shell(PROGRAM, *words)


def shell(*words: str) -> str:
    """A command on one line. A word with characters that control a terminal is quoted as bash, zsh and ksh read it."""
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'" for word in words)


def _escaped(one: str) -> str:
    if one.isprintable() and one not in "\\'":
        return one
    # Bytes that are no text come from arguments and names of files as such surrogates.
    errors = "surrogateescape" if _RAW[0] <= one <= _RAW[-1] else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in one.encode(errors=errors))


def approved(words: Sequence[str], approval: str, *, more: Sequence[str] = ()) -> str:
    """The given command with the approval of its plan. ``words`` are the command's words without the program name; ``more`` are further options."""
    return command(*_without_approval(words), *more, _APPROVE, approval)


def without_plan(words: Sequence[str]) -> str:
    """The given command without ``--plan``, so that it carries out the plan."""
    return command(*_without_approval(words))


def added(words: Sequence[str], option: str) -> str:
    """The given command with one more option."""
    return command(*(word for word in words if word != option), option)


def with_configs(words: Sequence[str], line: str) -> str:
    """The command ``line`` with the configuration files of the command that was given in ``words``. A line that names its files, or is of another program,
    stays.
    """
    program, *options = shlex.split(line)
    if program != PROGRAM or any(word == _CONFIGS or word.startswith(f"{_CONFIGS}=") for word in options):
        return line
    for number, word in enumerate(words):
        if word.startswith(f"{_CONFIGS}="):
            return f"{line} {shell(word)}"
        if word == _CONFIGS and number + 1 < len(words):
            return f"{line} {shell(*words[number : number + 2])}"
    return line


def _without_approval(words: Iterable[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word == _APPROVE:
            next(rest, None)
        elif word != _PLAN and not word.startswith(f"{_APPROVE}="):
            yield word


# Also used in JSON schemas, so it uses only syntax that both dialects of regular expressions have.
PATTERN = r"\d{8}T\d{6}Z-[0-9a-f]{10}"
# What a person writes in place of an id: the newest one that will do, or what is on the cluster now.
LATEST, LIVE = "latest", "live"
_ID = re.compile(PATTERN)
_TIME = "%Y%m%dT%H%M%SZ"
# Clocks never differ by more (ms). An id with a later time is forged, or a clock was wrong.
LATEST_MS = 86_400_000
# Longest part of a run's own id in the name of a run.
_LONGEST = 200


def new_id(at: int, run_id: str, *, after: Iterable[str] = ()) -> str:
    """``20261121T012345Z-0123456789`` for a moment in milliseconds and a run. The same run always gets the same suffix.

    The new id must sort last. So its time is always later than those of the ids that it comes ``after``, whatever the clocks of the machines say. Ids that
    are ahead of the clock by more than ``LATEST_MS`` are ignored: they would shift all later ids for as long as they are there.
    """
    time = datetime.fromtimestamp(at / 1000, UTC)
    newest = max((one for one in after if not is_ahead(one, at)), default=None)
    if newest is not None:
        time = max(time, _moment(newest) + timedelta(seconds=1))
    return f"{time.strftime(_TIME)}-{run_suffix(run_id)}"


def is_ahead(text: str, now: int) -> bool:
    """True for an id with a time that no clock can have shown at ``now`` (ms)."""
    return moment_of(text) > now + LATEST_MS


def in_order(ids: Iterable[str], now: int) -> list[str]:
    """Ids, the newest last. Those that are ahead of the clock come first: none of them is ever taken for the newest."""
    return sorted(ids, key=lambda one: (not is_ahead(one, now), one))


def moment_of(text: str) -> int:
    """The moment in an id, in milliseconds since the epoch. Ids have whole seconds. Raises ``ValueError`` for text that is no id."""
    return round(_moment(text).timestamp() * 1000)


def _moment(text: str) -> datetime:
    return datetime.strptime(time_of(text), _TIME).replace(tzinfo=UTC)


def same_moment(savepoint_id: str, run_id: str) -> str:
    """An id for an object that ``run_id`` makes of a savepoint. It has the savepoint's time, so that both sort together, and the run's own suffix."""
    return f"{time_of(savepoint_id)}-{run_suffix(run_id)}"


def time_of(text: str) -> str:
    """The time in an id."""
    return text.split("-", 1)[0]


def run_suffix(run_id: str) -> str:
    """The suffix of ids of this run."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:10]


def run_name(run_id: str, dag_id: str) -> str:
    """A name for a run of Airflow that is fit for object keys: run ids have colons and plus signs. It ends with a digest of both ids, because runs of two DAGs
    may have one id, and must not take each other for themselves.
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in run_id)
    return f"{plain[:_LONGEST]}-{hashlib.sha256(f'{dag_id} {run_id}'.encode()).hexdigest()[:8]}"


def is_id(text: str) -> bool:
    """True for text in the format of an id, with a valid time."""
    if _ID.fullmatch(text) is None or not text.isascii():
        return False
    try:
        _moment(text)
    except ValueError:
        return False
    return True
