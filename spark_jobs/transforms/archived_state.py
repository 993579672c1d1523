"""What an archiver does for state by the minute: it looks for an exact cut of the application as it works, and proves what was copied up to there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from spark_jobs.transforms.task_runner import TaskFailed, cause_of
from streams_recovery.core.archive.cuts import MOST_CUTS, ArchivedCut, KeptCut
from streams_recovery.core.archive.log import ENTRY_READERS, Archive, ArchivedLog
from streams_recovery.core.archive.state import (
    LOOKS_FOR_CUT,
    Broken,
    NoCut,
    Seen,
    StateTopics,
    check_forward,
    check_read,
    check_whole,
    plan_state,
    seen_at,
    seen_before,
)
from streams_recovery.core.archive.tick import ArchivedTo, LogNow, TickLimits, archived_logs
from streams_recovery.core.errors import Damaged, LockLost, OffsetsGone, PermanentError, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import BackupResult, RangeToCopy
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.cut import LookAgain
from streams_recovery.core.named_transactions.readings import WrittenLogs
from streams_recovery.core.named_transactions.way import missing_in
from streams_recovery.core.repository.manifest import CutProof, Manifest, PartitionCut
from streams_recovery.core.savepoint.cut import (
    CutEvidence,
    InternalEnds,
    Offsets,
    check_by_names,
    ends_by_names,
    internal_by_names,
    proof,
    proof_by_names,
    purged_tails,
    read_cut,
)
from streams_recovery.kafka.application_logs import ApplicationLogs
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.named_transactions import NamedLogs
from streams_recovery.storage.append_log import AppendLog

LOGGER = logger("streams_recovery.archiver.state")
# As often as this in the time between two cuts it is tried again.
_AGAIN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCut:
    """A cut that was found, without its tails. ``logs`` are the partitions to copy as they end there, and ``unread`` those of repartition topics. ``topics``
    are all as they were described.
    """

    cut: ArchivedCut
    logs: tuple[LogNow, ...]
    unread: tuple[PartitionCut, ...]
    topics: Mapping[str, TopicDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedState:
    """What was copied of changelogs and outputs, and the cut that it comes to, None where that is still further on."""

    logs: tuple[ArchivedLog, ...]
    cut: ArchivedCut | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundExact:
    """An exact cut in the internal topics, at the moment ``captured_at``."""

    captured_at: int
    internal: InternalEnds
    proof: CutProof


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLook:
    """Looks for a cut of an application at work: ``described`` are its topics, and ``before`` is the last proof of what was written."""

    logs: ApplicationLogs
    topics: StateTopics
    described: Mapping[str, TopicDescription]
    before: Seen

    @property
    def _internal(self) -> tuple[TopicPartition, ...]:
        return self.topics.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION)

    def by_names(self, reader: NamedLogs, attempt: int) -> FoundExact:
        """A cut by the names of transactions. Raises ``LookAgain``, and ``Refused`` where no look will find one."""
        changelogs = self.topics.partitions(TopicRole.CHANGELOG)
        between, outputs = self.topics.partitions(TopicRole.REPARTITION), self.topics.partitions(TopicRole.OUTPUT)
        readings, named = reader.look(WrittenLogs(changelogs=changelogs, between=between, outputs=outputs), attempt, LOOKS_FOR_CUT)
        internal = internal_by_names(readings, named)
        check_by_names(
            transactional=self._transactional({tp: log.ends for tp, log in readings.logs.items()}),
            past_end=self.logs.past_end({tp: internal.committed.get(tp) for tp in self.logs.read}, self.described),
        )
        return FoundExact(
            captured_at=readings.captured_at, internal=internal, proof=proof_by_names(named, reader.group_partition(), attempt)
        )

    def still(self, attempt: int) -> FoundExact:
        """A cut at a moment at which nothing moved. Raises ``NoCut`` where something did."""
        readings = read_cut(self.logs, self._internal)
        evidence = CutEvidence(
            mode=QuiesceMode.LIVE,
            guarantee=Guarantee.EXACTLY_ONCE_V2,
            readings=readings,
            held=False,
            why_not_held="the application was not held",
            writers_transactional=readings.exact and self._transactional(readings.ends),
            past_end=self.logs.past_end(readings.committed_before, self.described),
        )
        label, found = proof(evidence, held_seconds=0.0, attempts=attempt)
        if label is not Consistency.EXACT:
            raise NoCut("; ".join(found.reasons))
        return FoundExact(captured_at=readings.captured_at, internal=readings.internal, proof=found)

    def _transactional(self, ends: Offsets) -> bool:
        """True when what was written to internal topics since the last proof was written in transactions. Where nothing was, that proof holds."""
        changelogs, between = (
            [tp for tp in self.topics.partitions(role) if ends[tp] != self.before[tp][0]]
            for role in (TopicRole.CHANGELOG, TopicRole.REPARTITION)
        )
        return not self.logs.without_transactions(changelogs, between, ends)


Positions = Mapping[TopicPartition, ArchivedTo]
Copy = Callable[[tuple[RangeToCopy, ...]], BackupResult]
T = TypeVar("T")


@dataclass(kw_only=True)
class StateArchiver:
    """Looks for a cut behind the newest savepoint ``every`` so many seconds. Inputs do not depend on it: it raises nothing but ``LockLost``."""

    application_id: str
    every: float
    outputs: tuple[str, ...]
    cluster: KafkaCluster
    logs: NamedLogs
    monotonic: Callable[[], float]
    _base: Manifest | None = field(default=None, init=False)
    _topics: StateTopics | None = field(default=None, init=False)
    _due: float = field(default=0.0, init=False)
    _why: str = field(default="", init=False)

    def go_on_behind(self, base: Manifest | None) -> None:
        """Go on behind this savepoint, the newest one."""
        if base is not None and self._base is not None and base.savepoint_id == self._base.savepoint_id:
            return
        self._base, self._due = base, 0.0
        self._topics = None if base is None else self._tried(partial(StateTopics.of, base, self.outputs))

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that are archived up to cuts."""
        return () if self._topics is None else tuple(sorted(self._topics.archived))

    def look(self, archive: Archive, positions: Positions) -> FoundCut | None:
        """A cut that is newer than those there are. None while it is not time for one, where there is none, and where nothing has happened since the last."""
        if self._base is None or self._topics is None or self.monotonic() < self._due:
            return None
        before = seen_before(self._base, archive)
        found = self._tried(partial(self._found, self._topics, positions, before))
        if found is not None and seen_at(found.cut) == before:
            self._due = self.monotonic() + self.every
            return None
        return found

    def copied(self, found: FoundCut, positions: Positions, limits: TickLimits, copy: Copy) -> CopiedState | None:
        """What was written up to a cut that was found, once ``copy`` has copied it. None where it was not all there, or is not what the cut was read of."""
        done = None if self._topics is None else self._tried(partial(self._proven, self._topics, found, positions, limits, copy))
        if done is not None:
            # What is left of a large backlog is copied by the next look.
            self._due, self._why = self.monotonic() + (0.0 if done.cut is None else self.every), ""
        return done

    def _proven(self, topics: StateTopics, found: FoundCut, positions: Positions, limits: TickLimits, copy: Copy) -> CopiedState:
        check_read(found.cut, positions)
        if limits.records < 1:
            raise NoCut("inputs take all that archive.throttle allows")
        planned = plan_state(found.logs, positions, limits, found.cut, found.unread)
        result = copy(planned.ranges) if planned.ranges else BackupResult(ranges=(), seconds=0)
        tails = {wanted.tp for wanted in planned.tails}
        ours = tuple(piece for piece in result.ranges if piece.tp not in tails)
        lost = tuple(gone for gone in result.lost if gone.tp not in tails)
        logs = archived_logs(planned.tick, replace(result, ranges=ours, lost=lost))
        written = {part.now.tp: (part.start, part.end) for part in planned.tick.parts}
        check_whole(logs, ours, self.cluster.whole_logs(written))
        # One that it has got while the cut was read is not in it.
        now = self._described(topics)
        moved = sorted(name for name, topic in found.topics.items() if topic.leader_epochs != now[name].leader_epochs)
        if moved:
            raise NoCut(f"the leader of {moved[0]} changed while it was copied")
        return CopiedState(logs=logs, cut=planned.with_tails([piece for piece in result.ranges if piece.tp in tails]))

    def _tried(self, ask: Callable[[], T]) -> T | None:
        """The answer, None where something keeps a cut from being had, which is told once."""
        try:
            return ask()
        except Broken as why:
            self._topics = None
            self._tell(f"{why}; there will be none before the next savepoint")
        except NoCut as why:
            self._tell(str(why))
            self._due = self.monotonic() + self.every / _AGAIN
        except LockLost:
            raise
        except (RecoveryError, TaskFailed) as error:
            self._tell(cause_of(error).reason)
            # Inputs are not to wait each time for what is busy.
            self._due = self.monotonic() + self.every
        return None

    def _tell(self, why: str) -> None:
        if why != self._why:
            LOGGER.warning("no exact cut: %s", why)
        self._why = why

    def _described(self, topics: StateTopics) -> dict[str, TopicDescription]:
        """The topics as they are now. Raises ``NoCut`` where there are others."""
        described = self.cluster.describe_topics(list(topics.ids))
        committed = self.logs.logs.groups.committed_partitions(self.application_id)
        topics.check(self.application_id, self.cluster.topic_names(), described, committed)
        return described

    def _found(self, topics: StateTopics, positions: Positions, before: Seen) -> FoundCut:
        described = self._described(topics)
        inputs = topics.partitions(TopicRole.INPUT, TopicRole.GLOBAL)
        internal = topics.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION)
        outputs = topics.partitions(TopicRole.OUTPUT)
        logs = replace(self.logs.logs, read=topics.partitions(TopicRole.INPUT, TopicRole.REPARTITION))
        exact = self._exact(StateLook(logs=logs, topics=topics, described=described, before=before))
        parts = ends_by_names(logs.partitions(exact.internal, described, inputs=inputs, outputs=outputs), exact.proof.names)
        unread = {tp: part for tp, part in parts.items() if topics.roles[tp.topic] is TopicRole.REPARTITION and tp.topic in topics.tails}
        if gone := purged_tails(unread):
            raise NoCut(f"unread records of {gone[0]} were deleted before they could be copied")
        logs.await_decided({tp: parts[tp].end for tp in outputs})
        cut = ArchivedCut(
            captured_at=exact.captured_at,
            proof=exact.proof,
            topics=topics.ids,
            inputs=tuple(parts[tp] for tp in inputs),
            written=tuple(parts[tp] for tp in (*internal, *outputs)),
            tails=(),
        )
        check_forward(before, seen_at(cut))
        mine = [part for tp, part in sorted(parts.items()) if tp.topic in topics.archived]
        return FoundCut(cut=cut, logs=self._ends(mine, described, positions), unread=tuple(unread.values()), topics=described)

    def _exact(self, look: StateLook) -> FoundExact:
        """By the names of transactions, and where these do not tell by readings at which nothing moved."""
        missing = missing_in(self.logs.facts())
        named = missing.text if missing is not None else _first(partial(look.by_names, self.logs), (PermanentError,))
        if not isinstance(named, str):
            return named
        still = _first(look.still)
        if not isinstance(still, str):
            return still
        raise NoCut(f"{still}; by the names of its transactions there is none, because {named}")

    def _ends(self, parts: Sequence[PartitionCut], described: Mapping[str, TopicDescription], positions: Positions) -> tuple[LogNow, ...]:
        known = {part.tp: positions[part.tp].leader_epoch for part in parts if part.tp in positions}
        moved = {part.tp: epoch for part in parts if (epoch := known.get(part.tp)) is not None and epoch != part.leader_epoch}
        ends = self.cluster.epoch_ends(moved) if moved else {}
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
            for part in parts
        )


@dataclass(kw_only=True)
class KeptCuts:
    """The cuts that a restore to a moment may begin from, in a ``log`` beside the archive's."""

    log: AppendLog[KeptCut]
    # When each was captured, and the files of its tails where this archiver has written them, the oldest first.
    _known: deque[tuple[int, frozenset[str]]] = field(default_factory=deque, init=False)

    def read(self) -> None:
        """Take note of those that were kept before. What cannot be read is passed over: the others are not to go with it."""
        try:
            found = [one.cut.captured_at for one in self.log.readable_back(whole=False, readers=ENTRY_READERS)]
            # Their files are for expiry, which asks who needs one: an entry may be anybody's, and name any.
            self._known = deque((at, frozenset()) for at in reversed(found))
        except Damaged as error:
            LOGGER.warning("cuts that were kept are not used: %s", error.reason)

    def keep(self, cut: ArchivedCut, cluster_id: str) -> None:
        """Keep one more. Inputs are archived also where that cannot be done."""
        try:
            self.log.append(KeptCut(cluster_id=cluster_id, cut=cut), whole=False)
        except RecoveryError as error:
            LOGGER.warning("a cut was not kept for restores to a moment: %s", error.reason)
        else:
            self._known.append((cut.captured_at, cut.keys))

    def forget(self, upto: int) -> list[str]:
        """Give up those that were captured by this moment (ms), and the oldest ones where there are too many. Returns those of their files that this
        archiver has written.
        """
        gone: list[str] = []
        while len(self._known) > MOST_CUTS or (len(self._known) > 1 and self._known[0][0] <= upto):
            gone += self._known.popleft()[1]
        if gone or self._known:
            self.log.prune(len(self._known), whole=False)
        return gone


def _first(look: Callable[[int], FoundExact], hopeless: tuple[type[RecoveryError], ...] = ()) -> FoundExact | str:
    """What the first look with a cut has found, or why the last one has none. None follows one that is ``hopeless``."""
    reason = ""
    for attempt in range(1, LOOKS_FOR_CUT + 1):
        try:
            return look(attempt)
        except NoCut as why:
            reason = str(why)
        except (LookAgain, OffsetsGone) as error:
            reason = error.reason
        except hopeless as error:
            return error.reason
    return reason
