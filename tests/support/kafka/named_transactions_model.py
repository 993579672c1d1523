"""A cluster in small whose transactions have names: a Streams application with two parts, its members, their producers and the group's partition.

The first part counts the records of each input in two stores (``left`` and ``right``; a punctuation moves what is in the one to the other) and sends each
record on, to one of two repartition topics. A punctuation may send a ``tick`` on with that count, without any record of its own store. The second part counts
what comes to each repartition partition, and writes the count to an output. Members work in transactions, whose markers come in any order; they are killed,
fenced, moved and started again. Nothing happens while nobody asks: each question lets time pass.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.named_transactions.cut import NamedCut, look_again
from streams_recovery.core.named_transactions.readings import GroupRecord, NamedBatch

COUNT = 2
GROUP = TopicPartition("__consumer_offsets", 0)
INPUTS, LEFT, RIGHT, BETWEEN, COUNTS = (
    tuple(TopicPartition(name, number) for number in range(COUNT)) for name in ("in", "left", "right", "between", "counts")
)
OUTPUT = TopicPartition("out", 0)
CHANGELOGS = (*LEFT, *RIGHT, *COUNTS)
WRITTEN = (*CHANGELOGS, *BETWEEN, OUTPUT)


@dataclass(eq=False)
class Run:
    """A transaction. ``committed`` is None while it is open. ``refused``: the group took no offsets of it. Its marker in
    ``slow`` comes late.
    """

    producer_id: int
    epoch: int
    touched: list[TopicPartition] = field(default_factory=list)
    committed: bool | None = None
    marker_epoch: int = 0
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    offsets_sent: bool = False
    refused: bool = False
    slow: TopicPartition | None = None


@dataclass
class Entry:
    """A record of a transaction, or of none, or a marker. ``value`` is what a log is about."""

    what: str
    run: Run | None
    value: tuple[object, ...] = ()
    epoch: int = 0


@dataclass(eq=False)
class Task:
    """A task of the first (0) or second (1) part, as its owner has it."""

    part: int
    number: int
    position: int = 0
    left: int = 0
    right: int = 0
    ready: bool = False

    @property
    def source(self) -> TopicPartition:
        return (INPUTS if self.part == 0 else BETWEEN)[self.number]

    @property
    def logs(self) -> tuple[TopicPartition, ...]:
        return (LEFT[self.number], RIGHT[self.number]) if self.part == 0 else (COUNTS[self.number],)


@dataclass(eq=False)
class Member:
    producer_id: int
    epoch: int
    tasks: list[Task] = field(default_factory=list)
    run: Run | None = None
    ahead: list[Callable[[], None]] = field(default_factory=list)
    fenced: bool = False
    gone: bool = False


class World:
    """``dice`` decide what happens. ``first_epoch`` is where producers begin. The methods at the end are a ``NamedReader``."""

    def __init__(self, dice: random.Random, *, first_epoch: int = 0, members: int = 3, old_client: bool = False) -> None:
        self.dice, self.old_client, self.first_epoch = dice, old_client, first_epoch
        self.logs: dict[TopicPartition, dict[int, Entry]] = {tp: {} for tp in (*WRITTEN, GROUP)}
        self.ends: dict[TopicPartition, int] = dict.fromkeys((*WRITTEN, GROUP), 0)
        self.starts: dict[TopicPartition, int] = dict.fromkeys((*WRITTEN, GROUP), 0)
        self.offsets: dict[TopicPartition, tuple[int, int]] = {}
        self.pending: dict[Run, dict[TopicPartition, tuple[int, int]]] = {}
        self.markers: list[tuple[Run, TopicPartition]] = []
        self._ids = iter(range(1, 10_000))
        self.members = [self._member() for _ in range(members)]
        self.taken = Counter[str]()
        for number, task in enumerate(Task(part, number) for part in (0, 1) for number in range(COUNT)):
            self.members[number % members].tasks.append(task)
        # How soon markers are written, how soon those that come late, how often members come and go, and how long a question takes.
        self.quick, self.patience, self.unrest = dice.choice([0.3, 0.5, 0.8]), dice.choice([0.02, 0.1]), dice.choice([0.0, 0.01, 0.03])
        self.busy = dice.choice([3, 6, 16])

    def _member(self) -> Member:
        return Member(next(self._ids), self.first_epoch)

    # ---- what happens

    def step(self) -> None:
        """One thing happens."""
        chance = self.dice.random()
        if chance < self.quick and (ready := [one for one in self.markers if one[1] != one[0].slow or self.dice.random() < self.patience]):
            self._write_marker(self.dice.choice(ready))
            return
        if chance > 1 - self.unrest:
            self.dice.choices((self._kill, self._move, self._fence, self._restart, self._compact_group, self._purge), (3, 6, 3, 6, 1, 1))[
                0
            ]()
            return
        self._work(self.dice.choice([one for one in self.members if not one.gone] or [self._replace()]))

    def _replace(self) -> Member:
        self.members.append(self._member())
        return self.members[-1]

    def append(self, tp: TopicPartition, entry: Entry) -> int:
        at = self.ends[tp]
        self.logs[tp][at] = entry
        self.ends[tp] = at + 1
        return at

    def _write_marker(self, marker: tuple[Run, TopicPartition]) -> None:
        run, tp = marker
        self.markers.remove(marker)
        self.append(tp, Entry("commit" if run.committed else "abort", run, epoch=run.marker_epoch))
        if tp == GROUP:
            for key, (at, offset) in self.pending.pop(run).items():
                if run.committed and at > self.offsets.get(key, (-1, 0))[0]:
                    self.offsets[key] = (at, offset)

    def _busy(self, run: Run | None) -> bool:
        return run is not None and any(other is run for other, _ in self.markers)

    def _work(self, member: Member) -> None:
        if member.ahead:
            member.ahead.pop(0)()
        elif not self._busy(member.run):
            self._begin(member)

    def _begin(self, member: Member) -> None:
        if member.run is not None:
            self._next_epoch(member)
            member.run = None
        if member.fenced:
            member.gone = True
            return
        for task in member.tasks:
            if not task.ready and not self._restore(task):
                return
        slow = self.dice.choice([None, None, GROUP, self.dice.choice(WRITTEN)])
        run = member.run = Run(member.producer_id, member.epoch, slow=slow)
        self._touched(member, run)

    def _next_epoch(self, member: Member) -> None:
        assert member.run is not None
        member.epoch = member.epoch if self.old_client else member.run.marker_epoch
        if member.epoch > 32_766:
            member.producer_id, member.epoch = next(self._ids), 0

    def _touched(self, member: Member, run: Run) -> None:
        """Everything that this transaction will do, one after the other."""
        for task in member.tasks:
            if self.dice.random() < 0.6:
                for _ in range(self.dice.randrange(3)):
                    member.ahead += self._process(task, run)
            if task.part == 0 and self.dice.random() < 0.4:
                member.ahead += self._punctuate(task, run)
        member.ahead.append(lambda: self._send_offsets(member, run))
        member.ahead.append(lambda: self._end(member, run, commit=self.dice.random() < 0.9))

    def _write(self, tp: TopicPartition, run: Run, value: Callable[[], tuple[object, ...]]) -> Callable[[], None]:
        def write() -> None:
            if tp not in run.touched:
                run.touched.append(tp)
            self.append(tp, Entry("record", run, value()))

        return write

    def _process(self, task: Task, run: Run) -> list[Callable[[], None]]:
        """One record. The second part reads what is committed."""
        at = task.position
        if task.part == 0:
            task.position += 1
            task.left += 1
            left = task.left
            to = BETWEEN[self.dice.randrange(COUNT)]
            run.offsets[task.source] = task.position
            return [
                self._write(LEFT[task.number], run, lambda: (left,)),
                self._write(to, run, lambda: ("in", task.number, at)),
            ]
        log = self.logs[task.source]
        stable = self._stable(task.source)
        while at < stable and not ((entry := log.get(at)) and entry.what == "record" and entry.run and entry.run.committed):
            at += 1
        if at >= stable:
            return []
        kind = log[at].value[0]
        task.position = run.offsets[task.source] = at + 1
        if kind == "in":
            task.left += 1
        count = task.left
        return [
            self._write(COUNTS[task.number], run, lambda: (count,)),
            self._write(OUTPUT, run, lambda: (task.number, count)),
        ]

    def _punctuate(self, task: Task, run: Run) -> list[Callable[[], None]]:
        if self.dice.random() < 0.5:
            count = task.left + task.right
            return [self._write(BETWEEN[self.dice.randrange(COUNT)], run, lambda: ("tick", task.number, count))]
        task.right, task.left = task.right + task.left, 0
        right = task.right
        return [
            self._write(LEFT[task.number], run, lambda: (0,)),
            self._write(RIGHT[task.number], run, lambda: (right,)),
        ]

    def _send_offsets(self, member: Member, run: Run) -> None:
        if not run.offsets:
            return
        if member.fenced:
            run.refused = True
            return
        run.offsets_sent = True
        for tp, offset in run.offsets.items():
            at = self.append(GROUP, Entry("offset", run, (tp, offset)))
            self.pending.setdefault(run, {})[tp] = (at, offset)
        run.touched.append(GROUP)

    def _end(self, member: Member, run: Run, *, commit: bool, bump: int = 1) -> None:
        # Who was fenced commits only where its offsets were taken before.
        run.committed = commit and not run.refused and (not member.fenced or run.offsets_sent)
        run.marker_epoch = run.epoch if self.old_client else min(run.epoch + bump, 32_767)
        self.markers += [(run, tp) for tp in run.touched]
        if not run.committed:
            for task in member.tasks:
                task.ready = False

    def _abandon(self, member: Member) -> None:
        """A member is gone: what it has open is aborted."""
        run, member.gone, member.ahead = member.run, True, []
        if run is not None and run.committed is None:
            self._end(member, run, commit=False, bump=self.dice.choice([1, 2]))

    def _alive(self) -> list[Member]:
        return [one for one in self.members if not one.gone and not one.fenced]

    def _hand_over(self, tasks: list[Task], others: list[Member]) -> None:
        self.append(GROUP, Entry("members", None))
        for task in tasks:
            self.dice.choice(others).tasks.append(Task(task.part, task.number))

    def _kill(self) -> None:
        alive = self._alive()
        lost = self.dice.choice(alive)
        others = [one for one in alive if one is not lost] or [self._replace()]
        self._abandon(lost)
        self._hand_over(lost.tasks, others)
        lost.tasks = []

    def _fence(self) -> None:
        """The group takes the tasks of a member away, which does not know it."""
        alive = self._alive()
        slow = self.dice.choice(alive)
        others = [one for one in alive if one is not slow] or [self._replace()]
        slow.fenced = True
        self._hand_over(slow.tasks, others)

    def _move(self) -> None:
        """A member gives a task away between two of its transactions."""
        alive = [one for one in self._alive() if one.tasks and not one.ahead and (one.run is None or one.run.committed)]
        if not alive:
            return
        giver = self.dice.choice(alive)
        task = giver.tasks.pop(self.dice.randrange(len(giver.tasks)))
        if self.dice.random() < 0.3:
            self._replace()
        self._hand_over([task], [one for one in self._alive() if one is not giver] or [self._replace()])

    def _restart(self) -> None:
        """A producer begins anew with its transactional id: its epoch rises."""
        member = self.dice.choice(self._alive())
        if member.ahead or self._busy(member.run):
            return
        if member.run is not None:
            self._next_epoch(member)
            member.run = None
        member.epoch += 1
        if member.epoch > 32_766:
            member.producer_id, member.epoch = next(self._ids), 0

    def _restore(self, task: Task) -> bool:
        """A task begins with what is committed, once nothing is open there. False while something is."""
        mine = {tp for tp in task.logs if self._stable(tp) < self.ends[tp]}
        if mine or any(task.source in keys for keys in self.pending.values()):
            return False
        task.position = self.offsets.get(task.source, (0, 0))[1]
        values = [self._newest(tp) for tp in task.logs]
        task.left, task.right = values[0], values[1] if task.part == 0 else 0
        task.ready = True
        return True

    def _newest(self, tp: TopicPartition) -> int:
        found = [
            entry.value[0] for _, entry in sorted(self.logs[tp].items()) if entry.what == "record" and entry.run and entry.run.committed
        ]
        return int(str(found[-1])) if found else 0

    def _compact_group(self) -> None:
        """Of offsets that are decided, only the newest stay."""
        stable, newest = self._stable(GROUP), {}
        for at, entry in sorted(self.logs[GROUP].items()):
            if at < stable and entry.what == "offset" and entry.run and entry.run.committed:
                newest[entry.value[0]] = at
        for at in [
            at for at, entry in self.logs[GROUP].items() if at < stable and entry.what == "offset" and newest.get(entry.value[0]) != at
        ]:
            del self.logs[GROUP][at]

    def compact(self, tp: TopicPartition, start: int) -> None:
        """Of what is decided in a changelog, from ``start`` on, only the newest value stays."""
        stable = self._stable(tp)
        done = [at for at, entry in sorted(self.logs[tp].items()) if entry.what == "record" and entry.run and entry.run.committed]
        for at in [at for at in done[:-1] if start <= at < stable]:
            del self.logs[tp][at]

    def _purge(self) -> None:
        """What is read of a repartition topic is deleted."""
        tp = self.dice.choice(BETWEEN)
        self.starts[tp] = max(self.starts[tp], self.offsets.get(tp, (0, 0))[1])

    def _stable(self, tp: TopicPartition) -> int:
        open_runs = {run for run, where in self.markers if where == tp}
        open_runs |= {one.run for one in self.members if one.run is not None and one.run.committed is None}
        first = [at for at, entry in self.logs[tp].items() if entry.run in open_runs and entry.what in ("record", "offset")]
        return min(first, default=self.ends[tp])

    # ---- what is asked (``NamedReader``)

    def pass_time(self) -> None:
        for _ in range(self.dice.randrange(self.busy)):
            self.step()

    def _one_by_one(self, partitions: Collection[TopicPartition], look: Callable[[TopicPartition], int]) -> dict[TopicPartition, int]:
        found = {}
        for tp in self.dice.sample(sorted(partitions), len(partitions)):
            self.pass_time()
            found[tp] = look(tp)
        return found

    def clock(self) -> int:
        return 0

    def group_partition(self) -> TopicPartition:
        return GROUP

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._one_by_one(partitions, lambda tp: self.ends[tp])

    def last_stable_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._one_by_one(partitions, self._stable)

    def await_decided(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        while True:
            found = self.last_stable_offsets(tuple(ends))
            if all(found[tp] >= end for tp, end in ends.items()):
                return found

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._one_by_one(partitions, lambda tp: self.starts[tp])

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        self.pass_time()
        return {tp: CommittedOffset(offset=offset, metadata=f"at {at}") for tp, (at, offset) in self.offsets.items()}

    def batches(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, tuple[NamedBatch, ...]]:
        return {tp: tuple(self._batches(tp, start, end)) for tp, (start, end) in ranges.items()}

    def _batches(self, tp: TopicPartition, start: int, end: int) -> Iterator[NamedBatch]:
        for at in range(max(start, self.starts[tp]), end):
            if (entry := self.logs[tp].get(at)) is not None:
                marker = {"commit": True, "abort": False}.get(entry.what)
                run = entry.run
                epoch = entry.epoch if marker is not None else run.epoch if run else -1
                yield NamedBatch(at, at, run.producer_id if run else -1, epoch, run is not None, marker, 1)

    def group_records(self, start: int, end: int) -> tuple[GroupRecord, ...]:
        self.pass_time()
        return tuple(self._group_records(start, end))

    def _group_records(self, start: int, end: int) -> Iterator[GroupRecord]:
        for at in range(start, end):
            if (entry := self.logs[GROUP].get(at)) is None:
                raise look_again("the cleaner was there")
            run = entry.run
            if run is None or entry.what not in ("offset", "commit", "abort"):
                tp, offset = entry.value or (None, None)
                committed = None if offset is None else CommittedOffset(offset=int(str(offset)), metadata=f"at {at}")
                yield GroupRecord(at, -1, -1, transactional=False, tp=tp if isinstance(tp, TopicPartition) else None, committed=committed)
            elif entry.what == "offset":
                tp, offset = entry.value
                assert isinstance(tp, TopicPartition)
                committed = CommittedOffset(offset=int(str(offset)), metadata=f"at {at}")
                yield GroupRecord(at, run.producer_id, run.epoch, transactional=True, tp=tp, committed=committed)
            else:
                yield GroupRecord(at, run.producer_id, entry.epoch, transactional=True, marker=entry.what == "commit")

    # ---- the truth

    def wrong(self, cut: NamedCut) -> list[str]:
        """Why a cut is not the state of an application that has processed its committed offsets, and nothing else. Empty when it is."""
        found: list[str] = []
        offsets = {tp: known.offset for tp, known in cut.committed.items()}
        sent = Counter[tuple[object, ...]]()
        for number in range(COUNT):
            done, sums = offsets.get(INPUTS[number], 0), self._value(cut, LEFT[number]) + self._value(cut, RIGHT[number])
            if done != sums:
                found.append(f"task 0_{number} has counted {sums} of {done}")
            arrived = [(at, entry.value) for at, entry in self._kept(cut, BETWEEN[number])]
            sent.update(value for _, value in arrived if value[0] == "in")
            ahead = [
                value for _, value in arrived if value[0] == "tick" and int(str(value[2])) > offsets.get(INPUTS[int(str(value[1]))], 0)
            ]
            found += [f"{value} knows what is not in the state" for value in ahead]
            read = sum(value[0] == "in" for at, value in arrived if at < offsets.get(BETWEEN[number], 0))
            if read != self._value(cut, COUNTS[number]):
                found.append(f"task 1_{number} has counted {self._value(cut, COUNTS[number])} of {read}")
            if OUTPUT not in cut.logs:
                continue
            shown = [entry.value[1] for _, entry in self._kept(cut, OUTPUT) if entry.value[0] == number]
            if (shown[-1] if shown else 0) != read:
                found.append(f"the output of task 1_{number} ends at {shown[-1:]}, not {read}")
        wanted = Counter(("in", number, at) for number in range(COUNT) for at in range(offsets.get(INPUTS[number], 0)))
        if sent != wanted:
            found.append(f"between the parts are {sorted((sent - wanted).items())} too many, {sorted((wanted - sent).items())} too few")
        return found

    def _kept(self, cut: NamedCut, tp: TopicPartition) -> Iterator[tuple[int, Entry]]:
        here = cut.logs[tp]
        out = {at for one in here.excluded for at in range(one.first, one.last + 1)}
        for at, entry in sorted(self.logs[tp].items()):
            if at < here.end and at not in out and entry.what == "record" and entry.run is not None and entry.run.committed:
                yield at, entry

    def _value(self, cut: NamedCut, tp: TopicPartition) -> int:
        values = [entry.value[0] for _, entry in self._kept(cut, tp)]
        return int(str(values[-1])) if values else 0
