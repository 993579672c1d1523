"""The archiver: it looks at the logs again and again, has tasks copy what is new, and adds what they copied to the archive's log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, takewhile
from types import MappingProxyType
from typing import Final

from spark_jobs.access import JobAccess
from spark_jobs.transforms.archived_state import FoundCut, KeptCuts, StateArchiver
from spark_jobs.transforms.merge import merge_groups
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.range_copy import copy_ranges
from spark_jobs.transforms.task_runner import TaskFailed, passing
from streams_recovery.core.archive.join import behind, cut_behind, groups_to_join, looks_behind, with_joined
from streams_recovery.core.archive.log import (
    ENTRY_READERS,
    Archive,
    ArchivedLog,
    ArchiveEntry,
    ArchiveEvent,
    archive_of,
)
from streams_recovery.core.archive.tick import (
    ARCHIVER_LEASE_SECONDS,
    HEARTBEAT_SECONDS,
    JOIN_SECONDS,
    KEPT_SECONDS,
    REPLACED_SECONDS,
    ArchivedTo,
    ArchiveResult,
    ArchiveSpec,
    LogNow,
    Safety,
    archived_logs,
    archived_to,
    plan_tick,
)
from streams_recovery.core.compaction.rewritten import judge
from streams_recovery.core.compaction.values import Accepted, CompactSpec, How, RangeToCompact
from streams_recovery.core.errors import WAITED_OUT, ApplicationNotReady, Damaged, LockLost, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.cleaning import compacted, looked_too_late
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.sites import site_of
from streams_recovery.core.words import moment
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.named_transactions import NamedLogs, impatient_named_logs
from streams_recovery.storage.archive_logs import archive_cuts, archive_entries
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.savepoints import SavepointStore
from streams_recovery.storage.site_log import entry_in

LOGGER = logger("streams_recovery.archiver")
# Entries that stay.
_KEPT: Final = 1_000
# What a broker or a store that does not answer may take before it is asked again.
_LEAST_PAUSE, _MOST_PAUSE = 1.0, 30.0
_CALL_SECONDS: Final = 30.0
# What a record is taken to have before one was seen: where there is a limit of bytes, the first look takes little.
_FIRST_RECORD_BYTES: Final = 10_000.0


def archive(context: Tasks, spec: ArchiveSpec, access: JobAccess) -> ArchiveResult:
    """Archive until it is time to hand over. Raises ``LockHeld`` where another archiver is at work, and ``LockLost`` when another one has taken over."""
    connection = access.cluster
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(lambda: connection, timeout=_CALL_SECONDS))
        named = impatient_named_logs(spec.application_id, connection, cluster, wall_clock, partial(access.loads, spec.application_id))
        logs = None if spec.cut_seconds is None else stack.enter_context(named)
        return Archiver(context=context, spec=spec, access=access, cluster=cluster, logs=logs).run()


def wall_clock() -> int:
    """Milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(kw_only=True)
class Archiver:
    """One archiver, of one application."""

    context: Tasks
    spec: ArchiveSpec
    access: JobAccess
    cluster: KafkaCluster
    logs: NamedLogs | None = None
    clock: Callable[[], int] = wall_clock
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _archive: Archive = field(default_factory=Archive, init=False)
    _positions: dict[TopicPartition, ArchivedTo] = field(default_factory=dict, init=False)
    _safety: Safety = field(default_factory=Safety, init=False)
    _replaced: deque[tuple[float, list[str]]] = field(default_factory=deque, init=False)
    # The files it has written. Of those that entries name, which may be anybody's and name any, expiry asks who needs them.
    _wrote: set[str] = field(default_factory=set, init=False)
    _entries: int = field(default=0, init=False)
    _records: int = field(default=0, init=False)
    _waiting: int = field(default=0, init=False)
    _ticket: LockTicket | None = field(default=None, init=False)
    _renewed_at: float = field(default=0.0, init=False)
    _asked_at: float = field(default=0.0, init=False)
    _epochs: dict[TopicPartition, int | None] = field(default_factory=dict, init=False)
    _saved_at: int | None = field(default=None, init=False)
    _compacted: dict[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict, init=False)
    _failing: bool = field(default=False, init=False)
    _kept_at: int | None = field(default=None, init=False)
    _record_bytes: float = field(default=_FIRST_RECORD_BYTES, init=False)
    _newest: ArchiveEntry | None = field(default=None, init=False)
    _others: list[ArchiveEntry] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._repository = self.access.repository()
        self._layout = Layout(self.spec.application_id)
        self._log = archive_entries(self._repository, self._layout)
        self._lock = ApplicationLock(self._repository, self._layout.archiving, self.clock, name=self.spec.name)
        self._cuts = KeptCuts(log=archive_cuts(self._repository, self._layout))
        self._savepoints = SavepointStore(self._repository, self._layout, self.clock)
        self._joined_at = self._based_at = self.monotonic()
        self._cluster_id = ""
        self._state = (
            None
            if self.logs is None or self.spec.cut_seconds is None
            else StateArchiver(
                application_id=self.spec.application_id,
                every=self.spec.cut_seconds,
                outputs=self.spec.outputs,
                cluster=self.cluster,
                logs=self.logs,
                monotonic=self.monotonic,
            )
        )

    def run(self) -> ArchiveResult:
        """From its lock to its end."""
        started = self.monotonic()
        ticket = self._ticket = self._lock.acquire(self.spec.run, lease_seconds=ARCHIVER_LEASE_SECONDS, purpose="archiving")
        try:
            self._work(started + self.spec.hand_over_seconds, ticket)
        finally:
            # Whatever has ended it: nothing is copied any more, and the next one need not wait for a lease. One that is lost by now stays whose it is.
            self._tidy("the lock of the archive: it ends with its lease", partial(self._lock.release, ticket))
        return ArchiveResult(entries=self._entries, records=self._records, seconds=self.monotonic() - started)

    def _work(self, until: float, ticket: LockTicket) -> None:
        """Archive until it is time to hand over, or until the application belongs to another site."""
        self._cluster_id = self.cluster.cluster_id()
        self._archive = self._read()
        self._cuts.read()
        self._begin()
        self._renewed_at = self._asked_at = self.monotonic()
        pause, said = _LEAST_PAUSE, 0.0
        while self.monotonic() < until:
            began = self.monotonic()
            try:
                if self._is_elsewhere():
                    self._append(self._entry(ArchiveEvent.ENDED))
                    return
                if self._failing:
                    self._renew(ticket)
                said = self._look(said)
                self._failing = False
                self._renew(ticket)
                pause = _LEAST_PAUSE
            except (*WAITED_OUT, TaskFailed) as error:
                # What was copied and not recorded is copied again.
                self._failing = True
                LOGGER.warning("nothing was archived: %s", passing(error).reason)
                self.sleep(pause)
                pause = min(2 * pause, _MOST_PAUSE)
                continue
            self.sleep(max(0.0, self.spec.interval_seconds - (self.monotonic() - began)))
        try:
            self._join("")
        except (*WAITED_OUT, TaskFailed) as error:
            LOGGER.warning("small files stay as they are, and the next archiver joins them: %s", passing(error).reason)
        self._append(self._entry(ArchiveEvent.ENDED))

    def _is_elsewhere(self) -> bool:
        """True when the application belongs to another site by now, asked once a third of the lease is over, also while nothing succeeds."""
        if not self.spec.site or self.monotonic() - self._asked_at <= ARCHIVER_LEASE_SECONDS / 3:
            return False
        site = site_of(entry_in(self._repository, self._layout))
        if site == self.spec.site:
            self._asked_at = self.monotonic()
            return False
        LOGGER.warning(
            "%s belongs to the site %s by now: the archiver at %s ends, and one at %s begins behind the first savepoint there",
            self.spec.application_id,
            site,
            self.spec.site,
            site,
        )
        return True

    def _renew(self, ticket: LockTicket) -> None:
        """Keep the lock, once a third of the lease is over. One that gets nothing done, because its cluster is lost, does not keep it from the next one: it
        proves only that nobody has taken it. Raises ``LockLost``.
        """
        if self._failing:
            self._lock.check_no_other_owner(ticket)
        elif self.monotonic() - self._renewed_at > ARCHIVER_LEASE_SECONDS / 3:
            self._lock.renew(ticket, lease_seconds=ARCHIVER_LEASE_SECONDS)
            self._renewed_at = self.monotonic()

    def _look(self, said: float) -> float:
        """One look, and when anything was last said."""
        self._catch_up()
        asked = self._archive.asked
        copied = self._copy()
        now = self.monotonic()
        if asked or now - self._joined_at > JOIN_SECONDS:
            self._join(asked)
        elif not copied and now - said > HEARTBEAT_SECONDS - self.spec.interval_seconds:
            self._append(self._entry(ArchiveEvent.STILL))
        elif not copied:
            return said
        self._remove_replaced()
        if now - self._based_at > HEARTBEAT_SECONDS:
            # A savepoint that nobody here was asked for may have copied inputs itself.
            self._go_on_behind(self._base())
        return now

    def _go_on_behind(self, base: Manifest | None) -> None:
        if self._state is not None:
            self._state.go_on_behind(base)
        ids = self._ids()
        self._positions = archived_to(self._archive, base, ids, state=self._state is not None)
        self._saved_at = None if base is None else base.captured_at
        before = {} if base is None else {topic.name: topic.config for topic in base.topics}
        names = [name for name in self.spec.topics if name in ids]
        settings = self.cluster.settings(names) if names else {}
        self._compacted = {
            name: (known, before.get(name, {}))
            for name, known in settings.items()
            if compacted(TopicRole.INPUT, known, before.get(name, {}))
        }
        self._based_at = self.monotonic()

    def _begin(self) -> None:
        """Say where each partition goes on. Raises ``ApplicationNotReady`` on another cluster than the archive's, until a savepoint is taken of this one."""
        base = self._base()
        if base is None and self._archive.exists and self._archive.cluster_id != self._cluster_id:
            raise ApplicationNotReady(
                f"the archive of {self.spec.application_id} is of cluster {self._archive.cluster_id}, and this is {self._cluster_id}",
                next_step="restore the application here, and take a savepoint; the archive goes on behind that one",
                application_id=self.spec.application_id,
            )
        if self._archive.cluster_id != self._cluster_id:
            self._archive = replace(self._archive, logs=MappingProxyType({}), cluster_id=self._cluster_id, safe_at=None, cut=None)
        self._safety = Safety.after(self._archive)
        self._go_on_behind(base)
        begins = tuple(
            ArchivedLog(tp=tp, topic_id=to.topic_id, start=to.end, end=to.end, leader_epoch=to.leader_epoch, ranges=())
            for tp, to in sorted(self._positions.items())
            # Of one that begins anew what is there stays until its records were copied again.
            if tp.topic in self.spec.topics and not to.anew
        )
        self._append(self._entry(ArchiveEvent.BEGUN, logs=begins))

    def _ids(self) -> dict[str, str]:
        names = (*self.spec.topics, *(() if self._state is None else self._state.names))
        return {name: topic.topic_id for name, topic in self.cluster.describe_topics(names).items()}

    def _base(self) -> Manifest | None:
        """The newest savepoint of this cluster; of one that cannot be read nothing is said."""
        try:
            found = self._savepoints.latest(read=self._savepoints.outline)
        except Damaged:
            return None
        return found if found is not None and found.cluster_id == self._cluster_id else None

    def _now(self) -> list[LogNow]:
        topics = self.cluster.describe_topics(self.spec.topics)
        there = [(TopicPartition(name, number), topic) for name, topic in sorted(topics.items()) for number in range(topic.partitions)]
        partitions = [tp for tp, _ in there]
        high = self.cluster.high_watermarks(partitions)
        stable = self.cluster.last_stable_offsets(partitions)
        starts = self.cluster.log_starts(partitions)
        epochs = {tp: topic.leader_epochs[tp.partition] for tp, topic in there}
        moved = {
            tp: known.leader_epoch
            for tp, known in self._positions.items()
            if tp in epochs and known.leader_epoch is not None and known.leader_epoch != epochs[tp]
        }
        ends = self.cluster.epoch_ends(moved) if moved else {}
        return [
            LogNow(
                tp=tp,
                topic_id=topic.topic_id,
                leader_epoch=epochs[tp],
                log_start=starts[tp],
                last_stable=stable[tp],
                high=high[tp],
                epoch_end=ends.get(tp),
            )
            for tp, topic in there
        ]

    def _copy(self) -> bool:
        """Copy what is new and record it. False when there was nothing."""
        # Before the ends of inputs are read: what it has read is archived then.
        found = None if self._state is None else self._state.look(self._archive, self._positions)
        at, logs = self.clock(), self._now()
        epochs = {log.tp: log.leader_epoch for log in logs}
        if epochs != self._epochs:
            # Another leader: whether the log was cut back is asked of all that a savepoint has, also of one from the last minute.
            self._go_on_behind(self._base())
            at, logs, self._epochs = self.clock(), self._now(), epochs
        late = self._late(at)
        tick = plan_tick(logs, self._positions, self.spec.limits.of_records(self._record_bytes), late=dict.fromkeys(late, at))
        if tick.begun_anew:
            self._safety.forget()
        self._safety.look(at, {log.tp: log.high for log in logs})
        self._waiting = tick.waiting
        for what in (*tick.begun_anew, *tick.gaps, *(f"{name}: {why}" for name, why in late.items() if tick.parts)):
            LOGGER.warning("archived anew or not at all: %s", what)
        copied = archived_logs(tick, self._copied(tick.ranges) if tick.ranges else None)
        if tick.parts:
            entry = self._entry(ArchiveEvent.COPIED, logs=copied)
            self._append(replace(entry, at=at, safe_at=self._safety.safe_at(tick.reached)))
            self._count(copied)
        self._safety.recorded(tick.reached)
        # Inputs first: nobody can make them again.
        state = found is not None and self._copy_state(found, sum(part.end - part.start for part in tick.parts))
        return bool(tick.parts) or state

    def _late(self, at: int) -> dict[str, str]:
        """The compacted topics of which deletions may be gone since all of them was archived, or saved, each with the reason."""
        moments = [moment for moment in (self._archive.safe_at, self._saved_at) if moment is not None]
        return looked_too_late(self._compacted, last=max(moments), now=at) if moments else {}

    def _copy_state(self, found: FoundCut, taken: int) -> bool:
        """Copy what was written up to a cut, with what inputs have left of the limit, and record both."""
        limits = self.spec.limits.of_records(self._record_bytes)
        left = replace(limits, records=limits.records - taken)
        if self._state is None:
            return False
        done = self._state.copied(found, self._positions, left, self._copied)
        if done is None or not (done.logs or done.cut):
            return False
        self._append(replace(self._entry(ArchiveEvent.COPIED, logs=done.logs), cut=done.cut))
        if done.cut is not None:
            self._cuts.keep(done.cut, self._cluster_id)
        self._count(done.logs)
        return True

    def _copied(self, ranges: tuple[RangeToCopy, ...]) -> BackupResult:
        if self._ticket is not None:
            self._renew(self._ticket)
        wanted = BackupSpec(application_id=self.spec.application_id, ranges=ranges, compression_level=self.spec.compression_level)
        return copy_ranges(self.context, wanted, self.access.for_tasks(wanted))

    def _count(self, copied: Sequence[ArchivedLog]) -> None:
        """Note what was written, and how large its records are: the next look takes as many as its limit of bytes allows of these."""
        files = [one.file for log in copied for one in log.ranges if one.file is not None]
        self._wrote.update(file.key for file in files)
        records = sum(file.rows for file in files)
        self._records += records
        if records:
            self._record_bytes = sum(file.payload_bytes for file in files) / records

    def _entry(self, event: ArchiveEvent, *, logs: tuple[ArchivedLog, ...] = (), answers: str = "") -> ArchiveEntry:
        return ArchiveEntry(
            event=event,
            run=self.spec.run,
            at=self.clock(),
            cluster_id=self._cluster_id,
            safe_at=self._safety.promised,
            waiting=self._waiting,
            answers=answers,
            logs=logs,
        )

    def _join(self, answers: str) -> None:
        """Make small files into larger ones, and say all that is behind the newest savepoint."""
        base = self._base()
        logs = behind(self._archive, base, state=self._state is not None)
        groups = groups_to_join(self._archive, logs, file_records=self.spec.limits.file_records)
        accepted = self._merged(groups) if groups else ()
        self._others = []
        joined = self._entry(ArchiveEvent.JOINED, logs=with_joined(logs, accepted), answers=answers)
        cut = None if self._state is None else cut_behind(self._archive, base)
        self._append(replace(joined, cut=cut, looks=looks_behind(self._archive, base) or None if cut is not None else None))
        asked = next((entry.run for entry in self._others if entry.event is ArchiveEvent.ASKED), "")
        self._archive = replace(self._archive, asked=asked)
        # What somebody uses that was there before.
        if not any(entry.event is ArchiveEvent.KEPT for entry in self._others):
            self._replaced.append((self.monotonic(), [file.key for group in groups for file in group.files if file.key in self._wrote]))
        self._wrote.update(one.file.key for made in accepted for one in made.ranges if one.file is not None)
        self._go_on_behind(base)
        self._joined_at = self._based_at
        # Readers go back to this entry, and plans that were made before it a little further.
        if not self._is_used():
            self._tidy("old entries of the archive", lambda: self._log.prune(_KEPT, whole=False))
            if base is not None:
                self._tidy("old cuts", lambda: self._replaced.append((self.monotonic(), self._cuts.forget(base.captured_at))))

    def _merged(self, groups: tuple[RangeToCompact, ...]) -> tuple[Accepted, ...]:
        wanted = CompactSpec(
            application_id=self.spec.application_id,
            how=How.SMALL_FILES,
            ranges=groups,
            max_records=self.spec.limits.file_records,
            compression_level=self.spec.compression_level,
        )
        return judge(wanted.how, groups, merge_groups(self.context, wanted, self.access.for_tasks(wanted)).ranges).accepted

    def _is_used(self) -> bool:
        """True while somebody may use what was there when he said so. What was said to an archiver before this one is looked up once."""
        since = self.clock() - 1000 * KEPT_SECONDS
        if self._kept_at is None:
            recent = takewhile(lambda one: one[1].at >= since, self._log.numbered_back(readers=ENTRY_READERS))
            self._kept_at = max((entry.at for _, entry in recent if entry.event is ArchiveEvent.KEPT), default=0)
        return self._kept_at >= since

    def _remove_replaced(self) -> None:
        while self._replaced and self.monotonic() - self._replaced[0][0] > REPLACED_SECONDS:
            _, keys = self._replaced.popleft()
            self._tidy("files that were joined", partial(self._repository.delete, keys))

    def _read(self) -> Archive:
        entries = self._log.numbered_back(readers=ENTRY_READERS)
        first = list(islice(entries, 1))
        self._newest = first[0][1] if first else None
        where = self._layout.archive
        return archive_of((number, entry.checked(self.spec.application_id, where)) for number, entry in chain(first, entries))

    def _catch_up(self) -> None:
        """Take note of entries that others have added. Raises ``LockLost`` for those of another archiver."""
        new = []
        for number, entry in self._log.numbered_back():
            if number <= self._archive.number:
                break
            new.append((number, entry))
        for number, entry in reversed(new):
            if entry.event in (ArchiveEvent.ASKED, ArchiveEvent.KEPT):
                self._others.append(entry)
                if entry.event is ArchiveEvent.KEPT:
                    # Somebody uses what there is, and what there was when the plan was made: expiry removes it, after its grace.
                    self._replaced.clear()
                    self._kept_at = entry.at
            # One of its own is one that it was told could not be stored.
            elif entry.run != self.spec.run:
                raise LockLost(
                    f"{entry.run} archives {self.spec.application_id} by now (entry {number}, {moment(entry.at)})",
                    next_step="this archiver has ended; nothing is archived twice",
                    owner=self.spec.run,
                    number=number,
                )
            self._take(number, entry)

    def _take(self, number: int, entry: ArchiveEntry) -> None:
        """Count an entry that is stored: only now the next look begins behind it."""
        self._archive, self._newest = self._archive.with_entry(number, entry), entry
        self._positions |= {log.tp: ArchivedTo.of(log) for log in entry.logs}

    def _append(self, entry: ArchiveEntry) -> None:
        """Add an entry behind all that there are. Raises ``LockLost`` when another archiver was faster."""

        def decide(newest: ArchiveEntry | None, _number: int) -> ArchiveEntry:
            # Not by number: one that is forged takes a number, and is nothing else.
            if newest is None and self._newest is not None:
                raise Damaged(
                    f"the archive of {self.spec.application_id} had {self._archive.number} entries, and has none: it was deleted, or is not mounted",
                    next_step="mount it, or bring it back from its second place (docs/storage.md); this archiver has ended",
                )
            if newest != self._newest:
                raise _NotNewest
            return entry

        while True:
            try:
                self._take(self._log.append_after(decide), entry)
            except _NotNewest:
                self._catch_up()
                continue
            self._entries += 1
            return

    def _tidy(self, what: str, call: Callable[[], object]) -> None:
        """Remove what may be removed. Where that cannot be done, expiry removes it, or nobody: nothing depends on it."""
        try:
            call()
        except RecoveryError as error:
            LOGGER.warning("%s stay: %s", what, error.reason)


class _NotNewest(Exception):
    """Raised where another entry was added since the log was read."""
