"""What an archiver does for state by the minute: it looks for an exact cut of the application as it works, and proves what was copied up to there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from streams_recovery.core.archive.log import Archive, ArchivedCut, ArchivedLog, ArchivedTail
from streams_recovery.core.archive.state import (
    LOOKS_FOR_CUT,
    NoCut,
    StateTick,
    StateTopics,
    check_whole,
    plan_state,
    seen_at,
    seen_before,
)
from streams_recovery.core.archive.tick import ArchivedTo, ArchiveSpec, LogNow, TickLimits
from streams_recovery.core.errors import OffsetsGone, RecoveryError, TransientError
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import BackupResult, RangeToCopy
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CutProof, Manifest, PartitionCut
from streams_recovery.core.savepoint.cut import CutEvidence, Readings, judge, proof, purged_tails, read_cut
from streams_recovery.storage.repository import Repository

if TYPE_CHECKING:
    from streams_recovery.kafka.application_logs import ApplicationLogs
    from streams_recovery.kafka.cluster import KafkaCluster
    from streams_recovery.kafka.connection import KafkaConnection

LOGGER = logger("streams_recovery.archiver.state")
# Longer nobody waits for a transaction, and for a coordinator: inputs are archived by the same look.
PATIENCE_SECONDS: Final = 1.0
CALL_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCut:
    """A cut that was found, with the partitions that it ends in, as they are now."""

    cut: ArchivedCut
    logs: tuple[LogNow, ...]
    topics: Mapping[str, TopicDescription]


@dataclass(kw_only=True)
class StateArchiver:
    """Looks for a cut behind the newest savepoint ``every`` so many seconds."""

    spec: ArchiveSpec
    every: float
    cluster: KafkaCluster
    connection: KafkaConnection
    logs: ApplicationLogs
    repository: Repository
    monotonic: Callable[[], float]
    _base: Manifest | None = field(default=None, init=False)
    _topics: StateTopics | None = field(default=None, init=False)
    _due: float = field(default=0.0, init=False)
    _why: str = field(default="", init=False)
    _hopeless: str = field(default="", init=False)

    def go_on_behind(self, base: Manifest | None) -> None:
        """Go on behind this savepoint, the newest one."""
        if base is not None and self._base is not None and base.savepoint_id == self._base.savepoint_id:
            return
        self._base, self._topics, self._hopeless, self._due = base, None, "", 0.0
        if base is None:
            self._none("there is no savepoint of this cluster", hopeless=True)
            return
        try:
            self._topics = StateTopics.of(base)
        except NoCut as why:
            self._none(str(why), hopeless=True)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are archived up to cuts."""
        return () if self._topics is None else tuple(sorted(self._topics.archived))

    def look(self, archive: Archive, positions: Mapping[TopicPartition, ArchivedTo]) -> FoundCut | None:
        """A cut that is newer than those there are. None while it is not time for one, where there is none, and where nothing has happened since the last."""
        if self._topics is None or self._hopeless or self.monotonic() < self._due:
            return None
        try:
            found = self._found(self._topics, positions)
        except NoCut as why:
            self._none(str(why))
            return None
        except (TransientError, OffsetsGone) as why:
            self._busy(why)
            return None
        if self._base is not None and seen_at(found.cut) == seen_before(self._base, archive):
            self._due = self.monotonic() + self.every
            return None
        return found

    def plan(self, found: FoundCut, positions: Mapping[TopicPartition, ArchivedTo], limits: TickLimits) -> StateTick | None:
        """What to copy up to the cut that was found."""
        if limits.records < 1:
            return None
        try:
            return plan_state(found.logs, positions, limits, found.cut)
        except NoCut as why:
            self._none(str(why), hopeless=True)
            return None

    def proven(self, found: FoundCut, tick: StateTick, copied: Sequence[ArchivedLog], result: BackupResult | None) -> bool:
        """True when what was copied may be used: all of it was there, and the topics are those that the cut was read of."""
        ranges = {part.now.tp: (part.start, part.end) for part in tick.parts}
        changelogs = {
            tp: span for tp, span in ranges.items() if self._topics is not None and self._topics.roles[tp.topic] is TopicRole.CHANGELOG
        }
        try:
            whole = self.cluster.whole_logs(changelogs) | (ranges.keys() - changelogs.keys())
            check_whole(copied, () if result is None else result.ranges, whole)
            now = self.cluster.describe_topics(list(found.topics))
        except NoCut as why:
            self._none(str(why), hopeless=True)
            return False
        except TransientError as why:
            self._busy(why)
            return False
        changed = sorted(name for name, topic in found.topics.items() if name not in now or not _same(topic, now[name]))
        if changed:
            self._none(f"{changed[0]} changed while it was copied")
            return False
        # What is left of a large backlog is copied by the next look.
        self._due = self.monotonic() + (self.every if tick.cut is not None else 0.0)
        self._why = ""
        return True

    def _busy(self, error: RecoveryError) -> None:
        """Inputs do not wait for what is busy."""
        self._none(error.reason)
        self._due = self.monotonic() + self.every

    def _none(self, why: str, *, hopeless: bool = False) -> None:
        if why != self._why:
            until = ", and there will be none before the next savepoint" if hopeless else ""
            LOGGER.warning("no cut%s: %s", until, why)
        self._why, self._hopeless = why, why if hopeless else self._hopeless

    def _found(self, topics: StateTopics, positions: Mapping[TopicPartition, ArchivedTo]) -> FoundCut:
        described = self.cluster.describe_topics(list(topics.ids))
        topics.check(
            self.spec.application_id,
            self.cluster.topic_names(),
            described,
            self.logs.groups.committed_partitions(self.spec.application_id),
        )
        inputs = topics.partitions(TopicRole.INPUT, TopicRole.GLOBAL)
        internal = topics.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION)
        outputs = topics.partitions(TopicRole.OUTPUT)
        logs = replace(self.logs, read=topics.partitions(TopicRole.INPUT, TopicRole.REPARTITION))
        readings, why = self._exact(logs, topics, internal)
        ends = {**readings.ends, **self.cluster.high_watermarks(outputs), **self.cluster.last_stable_offsets(inputs)}
        starts = self.cluster.log_starts(list(ends))
        parts = {
            tp: PartitionCut(
                tp=tp,
                log_start=starts[tp],
                last_stable=readings.last_stable.get(tp, end),
                end=end,
                leader_epoch=described[tp.topic].leader_epochs[tp.partition],
                committed=readings.committed_before.get(tp),
            )
            for tp, end in ends.items()
        }
        tails = self._tails({tp: part for tp, part in parts.items() if topics.roles[tp.topic] is TopicRole.REPARTITION})
        logs.await_decided({tp: ends[tp] for tp in outputs})
        cut = ArchivedCut(
            captured_at=readings.captured_at,
            proof=why,
            topics=topics.ids,
            inputs=tuple(parts[tp] for tp in inputs),
            written=tuple(parts[tp] for tp in (*internal, *outputs)),
            tails=tails,
        )
        return FoundCut(cut=cut, logs=self._ends(topics, described, parts, positions), topics=described)

    def _exact(self, logs: ApplicationLogs, topics: StateTopics, internal: Sequence[TopicPartition]) -> tuple[Readings, CutProof]:
        reasons: tuple[str, ...] = ()
        for attempt in range(1, LOOKS_FOR_CUT + 1):
            readings = read_cut(logs, internal)
            evidence = CutEvidence(
                mode=QuiesceMode.LIVE,
                guarantee=Guarantee.EXACTLY_ONCE_V2,
                readings=readings,
                held=False,
                why_not_held="the application was not held",
                writers_transactional=readings.exact and logs.all_transactional(topics.partitions(TopicRole.CHANGELOG), readings.ends),
            )
            label, reasons = judge(evidence)
            if label is Consistency.EXACT:
                return readings, proof(evidence, held_seconds=0.0, attempts=attempt)[1]
        raise NoCut("; ".join(reasons))

    def _tails(self, parts: Mapping[TopicPartition, PartitionCut]) -> tuple[ArchivedTail, ...]:
        # Imported here: no other driver needs a Kafka client.
        from streams_recovery.kafka.range_copy import announce, copy_range  # noqa: PLC0415
        from streams_recovery.kafka.reader import Consumers  # noqa: PLC0415

        if gone := purged_tails(parts):
            raise NoCut(f"unread records of {gone[0]} were deleted before they could be copied")
        wanted = [
            RangeToCopy(tp=tp, start=part.tail_start, end=part.end, size_hint=0)
            for tp, part in sorted(parts.items())
            if part.tail_start < part.end
        ]
        if not wanted:
            return ()
        layout, attempt = Layout(self.spec.application_id), f"{self.spec.run}-{time.monotonic_ns():x}"
        with Consumers(self.connection, cluster=self.cluster) as consumers:
            announce(consumers, wanted)
            copied = [
                copy_range(consumers, self.repository, layout, one, compression_level=self.spec.compression_level, attempt=attempt)
                for one in wanted
            ]
        return tuple(ArchivedTail(tp=one.tp, copied=one.copied) for one in copied)

    def _ends(
        self,
        topics: StateTopics,
        described: Mapping[str, TopicDescription],
        parts: Mapping[TopicPartition, PartitionCut],
        positions: Mapping[TopicPartition, ArchivedTo],
    ) -> tuple[LogNow, ...]:
        """The partitions to copy, as they end at the cut."""
        mine = [part for tp, part in parts.items() if tp.topic in topics.archived]
        moved = {
            part.tp: known.leader_epoch
            for part in mine
            if (known := positions.get(part.tp)) is not None and known.leader_epoch not in (None, part.leader_epoch)
        }
        ends = self.cluster.epoch_ends({tp: epoch for tp, epoch in moved.items() if epoch is not None}) if moved else {}
        return tuple(
            LogNow(
                tp=part.tp,
                topic_id=described[part.tp.topic].topic_id,
                leader_epoch=part.leader_epoch,
                log_start=part.log_start,
                last_stable=part.end,
                high=part.end,
                epoch_end=ends.get(part.tp),
            )
            for part in mine
        )


def _same(before: TopicDescription, now: TopicDescription) -> bool:
    return (before.topic_id, before.partitions, before.leader_epochs) == (now.topic_id, now.partitions, now.leader_epochs)
