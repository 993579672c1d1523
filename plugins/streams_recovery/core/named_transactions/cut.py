"""The cut at a set T of named transactions: its members, the end of each log, the records that are left out in between, and the committed offsets.

**T.** The first draft are the transactions with offsets whose commit lies below N in the group's partition, those without offsets (punctuations) that were
decided when all of the draft were, and of each producer all that came before. In this order every transaction stands behind what it has read, but for two
things. A marker in the group's partition may be later than those elsewhere: then records were read whose own transaction is not in the draft. So T is taken
back until

- of each producer it has all transactions up to one;
- no offset in T lies behind a record of a transaction that is not in T, and in no changelog a record of T lies behind such a record;
- nothing in T could have read the store of a task that had another owner before, whose last transaction is not in T: the owners change with a record about the
  group's members, so what was committed behind the first of these is not in T either. A producer that gets a new id because its epochs end looks the same.

What has no offsets has no place in the order of the group's partition. Where that leaves in doubt whether such a transaction has read what is not in T, it is
not decided: the next look is one moment later.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from streams_recovery.core.errors import OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut, NamedProof
from streams_recovery.core.named_transactions.readings import GroupRecord, LogTail, Name, NamedBatch, NamedReadings, WrittenLogs
from streams_recovery.core.words import first_names

NEEDED_VERSION: Final = 2
# From this epoch on the next one may be of another producer id.
LAST_EPOCH: Final = 32_766


class LookAgain(OffsetsUnstable):
    """Raised where this look does not tell what belongs to the cut. The next one will, as a rule."""


class RecordsRemoved(LookAgain):
    """Raised where the cleaner has removed a record of what was read: it may have been in the cut, and a later one, which is not, has its key. ``facts`` have
    the partition ``tp`` and the ``offset``.
    """


class Unnamed(Refused):
    """Raised where no look will find a cut by the names of transactions: see the classes below. ``because`` says why, as the end of a sentence."""

    because: ClassVar[str]


class VersionTooLow(Unnamed):
    """Raised for a cluster whose ``transaction.version`` is below 2. ``facts`` have the ``version``."""

    because = "its producers keep their epoch, so transactions have no names"


class EpochsStay(Unnamed):
    """Raised for a producer whose epoch does not rise with its transactions: a client before 4.0. ``facts`` have its ``producer_id`` and ``epoch``."""

    because = "a client before Kafka 4.0 keeps its epoch, so its transactions have no names"


class OutsideTransactions(Unnamed):
    """Raised for records outside transactions in an internal topic. ``facts`` have the partition ``tp`` and the ``offset``."""

    because = "nobody can tell to which state they belong"


class OffsetsByHand(Unnamed):
    """Raised for an offset that was committed or deleted outside transactions while it was looked. ``facts`` have the partition ``tp``."""

    because = "transactions do not tell where the group stands"


class NothingCommitted(Unnamed):
    """Raised for a group without committed offsets, as when they have expired. ``facts`` are empty."""

    because = "nothing tells from where a restored application would go on"


class GroupElsewhere(Unnamed):
    """Raised where what the group commits does not come to the partition that was read as its own. ``facts`` have the partition ``tp`` that it moved on."""

    because = "the partition of __consumer_offsets that was read is not the group's"


def look_again(why: str, kind: type[LookAgain] = LookAgain, **facts: object) -> LookAgain:
    """The error for a look that finds no cut."""
    return kind(f"this look finds no cut: {why}", next_step="look again", **facts)


def unnamed(kind: type[Unnamed], what: str, **facts: object) -> Unnamed:
    """The error for an application or a cluster whose transactions have no names that count."""
    return kind(f"{what}: {kind.because}", next_step="take the savepoint with backup.consistency.mode pause or stop", **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCut:
    """The cut. ``last`` has, for each producer that was seen, the last epoch in T; of a producer that was not seen all is in T. ``group_end`` is where the
    prefix of the group's partition ends. ``taken_back`` are transactions below it that are not in T.
    """

    last: dict[int, int]
    group_end: int
    committed: dict[TopicPartition, CommittedOffset]
    logs: dict[TopicPartition, NamedLogCut]
    taken_back: tuple[Name, ...]

    def proof(self, group: TopicPartition) -> NamedProof:
        """The cut as its savepoint has it. ``group`` is the group's partition."""
        last = tuple(Name(producer_id, epoch) for producer_id, epoch in sorted(self.last.items()))
        return NamedProof(group=group, group_end=self.group_end, last=last, taken_back=self.taken_back, logs=self.logs)


@dataclass(slots=True)
class _Commit:
    """A transaction with offsets: where its first one lies, and its marker, with what was committed and where that lies."""

    name: Name
    first: int
    offsets: dict[TopicPartition, tuple[int, CommittedOffset]] = field(default_factory=dict)
    marker: int | None = None
    committed: bool | None = None


@dataclass(slots=True)
class _Part:
    """The range of one transaction's records in one log, and its marker."""

    first: int
    last: int
    marker: int | None = None
    committed: bool | None = None


def cut_at_names(readings: NamedReadings, changelogs: Collection[TopicPartition], outputs: Collection[TopicPartition] = ()) -> NamedCut:
    """The cut that these readings prove. All logs that are neither ``changelogs`` nor ``outputs`` are read by the application too. Raises ``LookAgain``, and an
    ``Unnamed`` where no look will find one.
    """
    return _NamedDecision(readings, frozenset(changelogs), frozenset(outputs)).cut()


def cut_with_outputs(readings: NamedReadings, logs: WrittenLogs, shared: Collection[str], *, last: bool) -> tuple[NamedCut, str]:
    """The cut with those outputs that were read and whose records are told apart by names, and why the others are not, empty without others. Topics that are
    ``shared`` have other writers, and what these do is no reason against the state. A ``last`` look goes without outputs where these have no cut: none follows
    by which more could be said of them. Raises as ``cut_at_names``.
    """
    outputs = [tp for tp in logs.outputs if tp in readings.logs]
    internal = {tp: tail for tp, tail in readings.logs.items() if tp not in outputs}
    unknown = {*shared}.union(_nameless(readings, outputs)).intersection(tp.topic for tp in outputs)
    known = {tp: readings.logs[tp] for tp in outputs if tp.topic not in unknown}
    why = f"others write to {first_names(sorted(unknown))}" if unknown else ""
    try:
        return cut_at_names(replace(readings, logs=internal | known), logs.changelogs, known), why
    except (LookAgain, Unnamed) as error:
        if not known or (isinstance(error, LookAgain) and not last):
            raise
        return cut_at_names(replace(readings, logs=internal), logs.changelogs), error.reason


def _nameless(readings: NamedReadings, outputs: Collection[TopicPartition]) -> frozenset[str]:
    """Outputs with records outside transactions, also of producers that no leader remembers: nobody can tell which of them are of the state."""
    return frozenset(tp.topic for tp in outputs if any(one.marker is None and not one.transactional for one in readings.logs[tp].batches))


class _NamedDecision:
    """``limits`` has the first epoch of each producer that is not in T."""

    def __init__(self, readings: NamedReadings, changelogs: frozenset[TopicPartition], outputs: frozenset[TopicPartition]) -> None:
        self.readings = readings
        self.changelogs, self.outputs = changelogs, outputs
        self.limits: dict[int, int] = {}
        self.commits = _commits(readings.group)
        self.owner_changes = [one.at for one in readings.group if one.tp is None and one.marker is None]
        self.parts = {tp: _parts(tp, tail, internal=tp not in outputs) for tp, tail in readings.logs.items()}
        self.outcomes = {
            name: part.committed for parts in self.parts.values() for name, part in parts.items() if part.committed is not None
        }
        for one in self.commits.values():
            if one.committed is None:
                one.committed = self.outcomes.get(one.name)
        self.decided = {name for name, one in self.commits.items() if one.committed} | {
            name for name, committed in self.outcomes.items() if committed
        }
        # Those that were decided before N was read, and those that are below the ends as a whole.
        self.sure = set(self.committed_below("before"))
        self.complete = set(self.committed_below("after"))
        seen = ((batch.producer_id, batch.epoch) for tail in readings.logs.values() for batch in tail.batches)
        of_group = ((record.producer_id, record.epoch) for record in readings.group)
        self.ending = {producer_id for producer_id, epoch in itertools.chain(seen, of_group) if epoch >= LAST_EPOCH}

    def cut(self) -> NamedCut:
        self.check_group()
        self.draft()
        while self.take_back():
            pass
        self.check_left_out()
        self.check_doubts()
        committed = self.offsets()
        if not committed:
            raise unnamed(NothingCommitted, "no committed offsets were found")
        logs = {tp: self.log_cut(tp, tail, committed[tp].offset if tp in committed else 0) for tp, tail in self.readings.logs.items()}
        for tp in logs:
            self.check_whole(tp, committed)
        last: dict[int, int] = {}
        for name in self.names():
            last[name.producer_id] = max(last.get(name.producer_id, name.epoch), name.epoch)
        last |= {producer_id: limit - 1 for producer_id, limit in self.limits.items()}
        return NamedCut(
            last=last,
            group_end=self.readings.end,
            committed=committed,
            logs=logs,
            taken_back=tuple(sorted(one.name for one in self.commits.values() if self.below_end(one) and not self.inside(one.name))),
        )

    def inside(self, name: Name) -> bool:
        """True if T has it, should it be committed."""
        limit = self.limits.get(name.producer_id)
        return limit is None or name.epoch < limit

    def below_end(self, one: _Commit) -> bool:
        return bool(one.committed) and one.marker is not None and one.marker < self.readings.end

    def leave_out(self, name: Name) -> bool:
        """Leave this and the later ones of its producer out. True if it was in T."""
        found = self.inside(name)
        if found:
            self.limits[name.producer_id] = name.epoch
        return found

    def names(self) -> set[Name]:
        return {*self.commits, *(name for parts in self.parts.values() for name in parts)}

    def draft(self) -> None:
        for one in self.commits.values():
            if one.committed is not False and not self.below_end(one):
                self.leave_out(one.name)
        for name in self.names() - self.commits.keys() - self.complete:
            if self.outcomes.get(name) is not False:
                self.leave_out(name)

    def committed_below(self, reading: str) -> Iterator[Name]:
        """The transactions that have a marker which commits them below this end of a log."""
        for tp, parts in self.parts.items():
            end = getattr(self.readings.logs[tp], reading)
            yield from (name for name, part in parts.items() if part.committed and part.marker is not None and part.marker < end)

    def take_back(self) -> bool:
        """Take one step back. False if T holds."""
        found = 0
        for tp, parts in self.parts.items():
            missing = [part.first for name, part in parts.items() if name in self.decided and not self.inside(name)]
            if missing:
                behind = self.written_behind(parts, min(missing)) if tp in self.changelogs else self.read_behind(tp, min(missing))
                found += sum(self.leave_out(name) for name in behind)
        for one in self.commits.values():
            if one.committed is not False and not self.inside(one.name) and (change := self.change_behind(one)) is not None:
                later = [other for other in self.commits.values() if other.marker is not None and other.marker >= change]
                found += sum(self.leave_out(other.name) for other in later if other.committed)
        return found > 0

    def written_behind(self, parts: Mapping[Name, _Part], offset: int) -> Iterator[Name]:
        for name, part in parts.items():
            if part.last > offset and name in self.decided and self.inside(name):
                if name not in self.commits:
                    raise look_again(f"a task of producer {name.producer_id} had another owner a moment ago")
                yield name

    def read_behind(self, tp: TopicPartition, offset: int) -> Iterator[Name]:
        return (name for name, one in self.commits.items() if one.committed and tp in one.offsets and one.offsets[tp][1].offset > offset)

    def change_behind(self, one: _Commit) -> int | None:
        """The first offset behind those of a transaction from which on another member may have its tasks."""
        if one.name.producer_id in self.ending:
            return one.first
        return next((at for at in self.owner_changes if at > one.first), None)

    def check_group(self) -> None:
        sent = {(tp, offset.offset) for one in self.commits.values() for tp, (_, offset) in one.offsets.items()}
        for tp, offset in self.readings.later.items():
            if self.readings.known.get(tp) != offset and (tp, offset.offset) not in sent:
                raise unnamed(GroupElsewhere, f"{offset.offset} was committed for {tp} and not seen", tp=tp)

    def check_left_out(self) -> None:
        early = [
            one.name
            for one in self.commits.values()
            if one.committed is not False and one.first < self.readings.settled and not self.inside(one.name)
        ]
        if early:
            raise look_again("a transaction that is not in the cut began before it was looked", transactions=early)

    def check_doubts(self) -> None:
        """Raise ``LookAgain`` where T has a transaction without offsets, behind all of its producer that have some, and it may have read what is not in T."""
        newest: dict[int, int] = {}
        for name, one in self.commits.items():
            if one.committed and self.inside(name):
                newest[name.producer_id] = max(newest.get(name.producer_id, -1), name.epoch)
        for name in self.decided - self.commits.keys():
            if not self.inside(name) or name.epoch < newest.get(name.producer_id, -1):
                continue
            sure = name in self.sure
            out = (one for one in self.commits.values() if one.committed is not False and not self.inside(one.name))
            others = [one for one in out if one.name.producer_id != name.producer_id and self.change_behind(one) is not None]
            if others or (not sure and any(at >= self.readings.end for at in self.owner_changes)):
                raise look_again(
                    f"tasks change their owners, and producer {name.producer_id} has a transaction without offsets", transaction=name
                )

    def offsets(self) -> dict[TopicPartition, CommittedOffset]:
        """What T has committed. The later record of two commits counts (``OffsetMetadataManager#replayEndTransactionMarker``)."""
        found: dict[TopicPartition, tuple[int, CommittedOffset]] = {}
        unknown: set[TopicPartition] = set()
        for name, one in self.commits.items():
            if not self.below_end(one):
                continue
            if not self.inside(name):
                unknown |= one.offsets.keys()
                continue
            for tp, (at, offset) in one.offsets.items():
                if tp not in found or found[tp][0] < at:
                    found[tp] = (at, offset)
        if unknown - found.keys():
            raise look_again("what was committed before is not known", partitions=sorted(map(str, unknown - found.keys())))
        return {**self.readings.known, **{tp: offset for tp, (_, offset) in found.items()}}

    def log_cut(self, tp: TopicPartition, tail: LogTail, read: int) -> NamedLogCut:
        """The cut in a log of which the offsets below ``read`` are read: the first of them may be deleted. Nothing below them is left out."""
        start = max(tail.start, read)
        ours = [batch for batch in tail.batches if batch.marker is None and batch.last >= start]

        def counts(name: Name, batch: NamedBatch) -> bool:
            return (name in self.decided and self.inside(name)) if batch.transactional else batch.base < tail.after

        kept = [(counts(name := Name(batch.producer_id, batch.epoch), batch), name, batch) for batch in ours]
        end = max((batch.last + 1 for keep, _, batch in kept if keep), default=start)
        records, excluded = 0, []
        below = (one for one in kept if one[2].base < end and start < end)
        for (keep, name), group in itertools.groupby(below, key=lambda one: one[:2]):
            run = [batch for _, _, batch in group]
            count = sum(_records(tp, batch, start) for batch in run)
            records += count if keep else 0
            if not keep:
                excluded.append(
                    Excluded(
                        producer_id=name.producer_id,
                        epoch=name.epoch,
                        first=max(start, run[0].base),
                        last=run[-1].last,
                        records=count,
                        aborted=run[0].transactional and name not in self.decided,
                    )
                )
        return NamedLogCut(start=start, end=end, records=records, excluded=tuple(excluded))

    def check_whole(self, tp: TopicPartition, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        tail = self.readings.logs[tp]
        if tp in self.changelogs or tp in self.outputs:
            hole = first_hole(tail)
            if hole is not None:
                raise look_again(f"{tp} lacks a record at or behind offset {hole}", RecordsRemoved, tp=tp, offset=hole)
        elif tail.first > min(tail.start, committed[tp].offset if tp in committed else tail.start):
            # What was read and deleted since the beginning of the look has no name: it may not be in the cut.
            raise look_again(f"records of {tp} were deleted meanwhile", tp=tp)


def _records(tp: TopicPartition, batch: NamedBatch, start: int) -> int:
    """The number of records of a batch from ``start`` on."""
    if batch.base >= start:
        return batch.records
    if batch.records != batch.last - batch.base + 1:
        raise look_again(f"{tp} lacks records between offsets {batch.base} and {batch.last}", RecordsRemoved, tp=tp, offset=batch.base)
    return batch.last + 1 - start


def first_hole(tail: LogTail) -> int | None:
    """The first offset at which a record is missing: between two batches, or inside one."""
    position = tail.start
    for batch in tail.batches:
        if batch.last < position:
            continue
        if batch.base > position or batch.records != batch.last - batch.base + 1:
            return position
        position = batch.last + 1
    return None


def _commits(records: Iterable[GroupRecord]) -> dict[Name, _Commit]:
    """The transactions with offsets of the group, in the order of their first one."""
    found: dict[Name, _Commit] = {}
    opened: dict[int, _Commit] = {}
    for record in records:
        if record.marker is not None:
            if (ended := opened.pop(record.producer_id, None)) is not None:
                _check_rises(ended.name, record.epoch)
                ended.marker, ended.committed = record.at, record.marker
        elif record.tp is not None:
            name = Name(record.producer_id, record.epoch)
            if not record.transactional or record.committed is None:
                raise unnamed(
                    OffsetsByHand,
                    f"the offset of {record.tp} was {'deleted' if record.committed is None else 'committed'} outside transactions",
                    tp=record.tp,
                )
            one = opened.setdefault(record.producer_id, _Commit(name, record.at))
            if one.name != name or name in found.keys() - {one.name} or (name in found and found[name] is not one):
                _refuse_epoch(name)
            found[name] = one
            one.offsets[record.tp] = (record.at, record.committed)
    return found


def _parts(tp: TopicPartition, tail: LogTail, *, internal: bool) -> dict[Name, _Part]:
    """The part of each transaction in a log."""
    found: dict[Name, _Part] = {}
    opened: dict[int, Name] = {}
    if tail.stable < tail.ends:
        raise OffsetsUnstable(f"a transaction is open below the end of {tp}", next_step="run again", partitions={str(tp): tail.stable})
    for batch in tail.batches:
        if batch.marker is not None:
            if (name := opened.pop(batch.producer_id, None)) is not None:
                _check_rises(name, batch.epoch)
                found[name].marker, found[name].committed = batch.base, batch.marker
        elif batch.transactional:
            name = Name(batch.producer_id, batch.epoch)
            if opened.setdefault(batch.producer_id, name) != name or (name in found and found[name].marker is not None):
                _refuse_epoch(name)
            found.setdefault(name, _Part(batch.base, batch.last)).last = batch.last
        elif internal and batch.last >= tail.start:
            raise unnamed(OutsideTransactions, f"{tp} has records outside transactions at offset {batch.base}", tp=tp, offset=batch.base)
    lost = next((part.first for part in found.values() if part.marker is None and part.first < tail.ends), None)
    if lost is not None:
        raise look_again(f"{tp} lacks the marker of the transaction at offset {lost}", RecordsRemoved, tp=tp, offset=lost)
    return found


def _check_rises(name: Name, marker: int) -> None:
    if marker <= name.epoch:
        _refuse_epoch(name)


def _refuse_epoch(name: Name) -> None:
    raise unnamed(
        EpochsStay,
        f"producer {name.producer_id} ends a transaction with the epoch {name.epoch} of its records",
        producer_id=name.producer_id,
        epoch=name.epoch,
    )
