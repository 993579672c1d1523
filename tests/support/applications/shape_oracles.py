"""What each shape of ``Shapes.java`` must write and keep, computed from its inputs alone: without Kafka Streams, and without asking it.

An oracle is given the records that were processed before a savepoint and those that were processed after the state came back. It says what must be written
for the latter, and what the stores must hold in the end.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streams_recovery.core.state.edit import default_partition

PARTITIONS: Final = 2
MINUTE: Final = 60_000
# Those of Shapes.java.
DIFFERENCE, GRACE, GAP, DELAY = 20_000, 20 * MINUTE, 30_000, 2 * MINUTE


@dataclass(frozen=True, kw_only=True)
class Given:
    """A record of an input: ``side`` is the end of its topic's name, ``trace`` its header, if any."""

    side: str
    key: str
    value: str | None
    at: int
    trace: str | None = None

    @property
    def partition(self) -> int:
        return default_partition(self.key.encode(), PARTITIONS)


Records = Sequence[Given]
Written = Counter[tuple[str, str | None]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """``written`` is every result, by key and value; None where how many there are depends on which input was read first. Then only the last one of each key
    counts, and ``last`` has that, None for a key that is gone. ``kept`` has the content of stores.
    """

    written: Written | None = None
    last: Mapping[str, str | None] = field(default_factory=dict)
    kept: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


Oracle = Callable[[Records, Records], Answer]


def inner_join(before: Records, after: Records) -> Answer:
    """Every pair of one key that is no further apart than the windows allow."""
    return Answer(written=_new(_pairs, before, after))


def left_join(before: Records, after: Records) -> Answer:
    """Those, and each record of the left side that found none before its window closed."""
    return Answer(written=_new(lambda records: _pairs(records) + _alone(records, "left"), before, after))


def outer_join(before: Records, after: Records) -> Answer:
    """Those, and the same of the right side."""
    return Answer(written=_new(lambda records: _pairs(records) + _alone(records, "left") + _alone(records, "right"), before, after))


def _new(all_of: Callable[[Records], Written], before: Records, after: Records) -> Written:
    return all_of([*before, *after]) - all_of(before)


def _of(records: Records, side: str) -> list[Given]:
    return [record for record in records if record.side == side]


def _near(left: Given, right: Given) -> bool:
    return left.key == right.key and abs(left.at - right.at) <= DIFFERENCE


def _pairs(records: Records) -> Written:
    return Counter(
        (left.key, f"{left.value}|{right.value}")
        for left, right in itertools.product(_of(records, "left"), _of(records, "right"))
        if _near(left, right)
    )


def _alone(records: Records, side: str) -> Written:
    others = _of(records, "right" if side == "left" else "left")
    newest = {number: max((record.at for record in records if record.partition == number), default=0) for number in range(PARTITIONS)}
    return Counter(
        (one.key, f"{one.value}|null" if side == "left" else f"null|{one.value}")
        for one in _of(records, side)
        if one.at + DIFFERENCE + GRACE < newest[one.partition] and not any(_near(one, other) for other in others)
    )


def _table(records: Iterable[Given], side: str) -> dict[str, str]:
    newest = {record.key: record.value for record in records if record.side == side}
    return {key: value for key, value in newest.items() if value is not None}


def tables(before: Records, after: Records) -> Answer:
    """Two tables, joined in three ways. The last value of each side counts."""
    records = [*before, *after]
    left, right = _table(records, "left"), _table(records, "right")
    inner = {key: f"{left[key]}|{right[key]}" for key in left.keys() & right.keys()}
    with_left = {key: f"{value}|{right.get(key, 'null')}" for key, value in left.items()}
    both = {key: f"{left.get(key, 'null')}|{right.get(key, 'null')}" for key in left.keys() | right.keys()}
    kept = {"tables-left": left, "tables-right": right, "tables-inner": inner, "tables-joined-left": with_left, "tables-outer": both}
    return Answer(last=_told(records, inner=inner, left=with_left, both=both), kept=kept)


def foreign(before: Records, after: Records) -> Answer:
    """A table whose values begin with keys of the other one."""
    records = [*before, *after]
    left, right = _table(records, "left"), _table(records, "right")
    wanted = {key: value.split(":", maxsplit=1)[0] for key, value in left.items()}
    inner = {key: f"{value}|{right[wanted[key]]}" for key, value in left.items() if wanted[key] in right}
    with_left = {key: f"{value}|{right.get(wanted[key], 'null')}" for key, value in left.items()}
    kept = {"foreign-left": left, "foreign-right": right, "foreign-inner": inner, "foreign-joined-left": with_left}
    return Answer(last=_told(records, inner=inner, left=with_left), kept=kept)


def _told(records: Records, **tables: Mapping[str, str]) -> dict[str, str | None]:
    keys = {record.key for record in records}
    return {f"{name}:{key}": table.get(key) for name, table in tables.items() for key in keys}


def _running(names: Iterable[str], counted: Counter[str]) -> Written:
    written: Written = Counter()
    for name in names:
        counted[name] += 1
        written[name, str(counted[name])] += 1
    return written


def memory(before: Records, after: Records) -> Answer:
    """Counts: of all records of a key, of those of a minute, of those of a session."""

    def all_of(records: Records) -> Written:
        names = [f"all:{record.key}" for record in records]
        names += [f"minute:{record.key}@{record.at // MINUTE * MINUTE}" for record in records]
        return _running(names, Counter()) + _sessions(records)

    counts = Counter(record.key for record in [*before, *after])
    return Answer(written=_new(all_of, before, after), kept={"memory-counts": dict(counts)})


def _sessions(records: Records) -> Written:
    written: Written = Counter()
    known: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for record in records:
        near = [one for one in known[record.key] if one[0] - GAP <= record.at <= one[1] + GAP]
        start, end = min([record.at, *(one[0] for one in near)]), max([record.at, *(one[1] for one in near)])
        count = 1 + sum(one[2] for one in near)
        known[record.key] = [one for one in known[record.key] if one not in near] + [(start, end, count)]
        written[f"session:{record.key}@{start}-{end}", str(count)] += 1
    return written


def unlogged(before: Records, after: Records) -> Answer:
    """Two counts of the same records. The store without a changelog begins empty where the state came back."""
    written = _running((f"with:{record.key}" for record in after), Counter(f"with:{record.key}" for record in before))
    written += _running((f"without:{record.key}" for record in after), Counter())
    counts = {
        "unlogged-with": Counter(record.key for record in [*before, *after]),
        "unlogged-without": Counter(record.key for record in after),
    }
    return Answer(written=written, kept={name: dict(count) for name, count in counts.items()})


def suppressed(before: Records, after: Records) -> Answer:
    """The count of each minute once it is over, with the header of the last record in it. No record comes late."""

    def all_of(records: Records) -> Written:
        minutes: dict[tuple[str, int], list[Given]] = defaultdict(list)
        newest = [0] * PARTITIONS
        for record in records:
            assert record.at >= newest[record.partition], "a late record would be dropped"
            newest[record.partition] = record.at
            minutes[record.key, record.at // MINUTE * MINUTE].append(record)
        return Counter(
            (f"{key}@{start}", f"{len(found)}|{found[-1].trace}")
            for (key, start), found in minutes.items()
            if start + MINUTE <= newest[found[-1].partition]
        )

    return Answer(written=_new(all_of, before, after))


def optimized(before: Records, after: Records) -> Answer:
    """A stream beside a table, whose records were all there before those of the stream."""
    table = _table([*before, *after], "table")
    return Answer(written=_beside(table, after), kept={"optimized-table": table})


def _beside(table: Mapping[str, str], records: Records) -> Written:
    return Counter((record.key, f"{record.value}|{table.get(record.key, 'null')}") for record in _of(records, "in"))


def global_stores(before: Records, after: Records) -> Answer:
    """A stream beside a global table and a global store of capital letters, both as new as their topics."""
    table, store = (_table([*before, *after], side) for side in ("table", "store"))
    capital = {key: value.upper() for key, value in store.items()}
    written = Counter({(key, f"{value}|{capital.get(key, 'null')}"): count for (key, value), count in _beside(table, after).items()})
    return Answer(written=written, kept={"globals-table": table, "globals-store": capital})


def punctuated(before: Records, after: Records) -> Answer:
    """Sums of what is two minutes old, by the newest record of the partition."""
    records = [*before, *after]
    newest = {number: max(record.at for record in records if record.partition == number) for number in range(PARTITIONS)}
    sums: Counter[str] = Counter()
    for record in records:
        if record.at + DELAY <= newest[record.partition]:
            sums[record.key] += int(record.value or 0)
    return Answer(last={key: str(value) for key, value in sums.items()}, kept={"punctuated-sums": dict(sums)})


def versioned(before: Records, after: Records) -> Answer:
    """Each record of the stream beside what the table had at its time. All of the table was there first."""
    versions: dict[str, dict[int, str | None]] = defaultdict(dict)
    for record in _of([*before, *after], "table"):
        versions[record.key][record.at] = record.value

    def then(record: Given) -> str | None:
        known = versions[record.key]
        valid = [at for at in known if at <= record.at]
        return known[max(valid)] if valid else None

    return Answer(written=Counter((record.key, f"{record.value}|{then(record) or 'null'}") for record in _of(after, "in")))


def ahead(before: Records, after: Records) -> Answer:
    """What was to be due at the time of each record that asks."""
    due = {(one.key, int(one.value[4:])): one.value for one in [*before, *after] if one.value is not None and one.value.startswith("due ")}
    asks = [one for one in after if one.value is not None and not one.value.startswith("due ")]
    return Answer(written=Counter((one.key, f"{one.value}|{due.get((one.key, one.at), 'null')}") for one in asks))


ORACLES: Final[Mapping[str, Oracle]] = {
    "inner": inner_join,
    "left": left_join,
    "outer": outer_join,
    "tables": tables,
    "foreign": foreign,
    "memory": memory,
    "unlogged": unlogged,
    "suppressed": suppressed,
    "optimized": optimized,
    "globals": global_stores,
    "punctuated": punctuated,
    "versioned": versioned,
    "ahead": ahead,
}
