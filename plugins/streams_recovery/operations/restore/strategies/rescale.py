"""The state in other numbers of partitions: which topics change, what is in the way, and the savepoint whose records were placed anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Self

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import SandboxApplication
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.forms import CONFIRM, savepoint_field
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Guarantee, Profile, TopicPartition, TopicRole
from streams_recovery.core.lag import lags
from streams_recovery.core.names import longer_owner
from streams_recovery.core.repository.compaction_proof import RescaledLog
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.rescale.moved import RescaleResult, moved
from streams_recovery.core.rescale.numbers import (
    DESCRIBED,
    HISTORY,
    PARTITIONS,
    PLACED_BY,
    check_as_saved,
    check_sources,
    new_numbers,
    stream_time_warnings,
    with_placing,
)
from streams_recovery.core.rescale.placement import RescaledTopic
from streams_recovery.core.restore.parts.rescale import RescalePart, Rescaling, TopicNumbers
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import COMPARE_KEYS, NOTHING_REPLACED, Safeguards, delete_field
from streams_recovery.core.rollout.compatibility import saved_topics
from streams_recovery.core.rollout.described import DescribedTopology, described
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import LATEST, first_names, moment
from streams_recovery.operations.compatibility import described_by_program, store_facts
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lag import RecordLag
from streams_recovery.operations.ownership import topology_of
from streams_recovery.operations.restore.checks import check_state, require_label, require_state
from streams_recovery.operations.restore.moments import other_readers
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.operations.restore.state_plan import plan_state
from streams_recovery.operations.restore.strategies.strategy import StateStrategy
from streams_recovery.storage.savepoints import SavepointStore

_RECENTLY_MS: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale(StateStrategy):
    """Give topics other numbers of partitions, and take all state and all unread input along. ``partitions`` are topics with their numbers, ``savepoint`` is
    ``latest`` for the one that the run takes itself when the application has stopped. ``topology`` describes the program. ``placed_by`` says of topics
    what decides where their records lie. ``derived`` is the savepoint with the records placed anew, empty until it is there. Of a drill it tries the same, and
    what its job has ``placed`` is in its own part of the repository: no savepoint is published.
    """

    KIND: ClassVar = "rescale"
    DAG: ClassVar = "streams_restore_rescale"
    COMMAND: ClassVar = "rescale"
    REPLACES: ClassVar = True
    partitions: Annotated[str, PARTITIONS]
    savepoint: Annotated[str, savepoint_field(latest="the one that the run takes when the application has stopped")] = LATEST
    history: Annotated[bool, HISTORY] = False
    topology: Annotated[str, DESCRIBED] = ""
    placed_by: Annotated[str, PLACED_BY] = ""
    safeguards: Annotated[Safeguards, delete_field("Those that the savepoint does not know"), CONFIRM] = NOTHING_REPLACED
    compare_keys: Annotated[bool, COMPARE_KEYS] = False
    derived: str = ""
    placed: ArtifactRef | None = None

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        if isinstance(recovery.config, SandboxApplication):
            return replace(self, savepoint=planned.savepoint_id or self.savepoint, placed=planned.part.placed)
        return replace(self, derived=planned.savepoint_id or "")

    def plan(self, recovery: RecoveryContext, mine: Mapping[str, set[str]]) -> RestorePlan:
        """Raises what ``resolve`` and ``plan_state`` do."""
        # A drill never replaces anything.
        tried = isinstance(recovery.config, SandboxApplication)
        safeguards = replace(self.safeguards, replace=False) if tried else self.safeguards
        planned = plan_state(recovery, safeguards, self.resolve(recovery), mine)
        # How much is loaded is known once records are placed.
        return planned if self.derived or self.placed else replace(planned, observed=replace(planned.observed, estimate=None))

    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """See RestoreStrategy. Partitions are empty until the records are placed. Raises ``NotFound`` without an exact savepoint, ``NotExact``, and ``Refused``
        for what is in the way, and for topics that have to move too.
        """
        if self.derived:
            return self._placed(recovery, recovery.savepoints.read(self.derived))
        whose = in_earnest(recovery).application.id
        store = recovery.savepoints_of(whose)
        manifest = self._proven_on(store, whose)
        require_state(recovery, manifest)
        require_label(manifest, allow_ahead=False, allow_damaged=False)
        check_state(recovery, store, manifest)
        if self.placed is not None:
            return self._placed_by_drill(manifest, recovery.artifacts.read(RescaleResult, self.placed))
        _refuse_elsewhere(recovery)
        saved, topology = saved_topics(manifest), _topology(recovery, self.topology)
        if self.savepoint == LATEST:
            internal = recovery.cluster.describe_topics([one.name for one in saved if one.role.internal])
            check_as_saved(manifest.savepoint_id, saved, {name: found.partitions for name, found in internal.items()})
        numbers = with_placing(whose, new_numbers(whose, saved, self.partitions.split(), topology), self.placed_by.split())
        inputs = [one for one in numbers if one.changes and one.role is TopicRole.INPUT]
        there = {name: found.partitions for name, found in recovery.cluster.describe_topics([one.name for one in inputs]).items()}
        grown = tuple(one.name for one in inputs if there.get(one.name) == one.new)
        anew = [one for one in inputs if one.name not in grown]
        _check_anew(recovery, manifest, anew, there, grown=grown)
        if isinstance(recovery.config, SandboxApplication):
            return self._tried(recovery, manifest, numbers, topology, grown)
        check_grown(recovery, *_read_of(recovery, manifest, grown, named=self.savepoint != LATEST))
        names = {one.name for one in anew}
        check_sources(recovery.application_id, saved, topology, store_facts(recovery), anew=names, grown=grown, history=self.history)
        return RestoreSource(
            archive_entry=0,
            manifest=_empty(manifest, numbers),
            again=tuple(one.name for one in anew),
            renumbered=[one.name for one in numbers if one.changes],
            part=RescalePart(
                rescaled=Rescaling(
                    topics=numbers,
                    anew=tuple(one.name for one in anew),
                    grown=grown,
                    history=self.history,
                    proven_on=manifest.savepoint_id,
                    named=self.savepoint != LATEST,
                )
            ),
            warnings=(
                *_written_recently(recovery, anew),
                *_written_by_others(recovery, names),
                *stream_time_warnings(manifest.topics, numbers),
            ),
        )

    def _tried(
        self,
        recovery: RecoveryContext,
        manifest: Manifest,
        numbers: tuple[TopicNumbers, ...],
        topology: DescribedTopology | None,
        grown: Sequence[str],
    ) -> RestoreSource:
        """What a drill tries: the inputs are copied under names of its own. Raises ``Refused`` for one that has none, or that has its number by now."""
        names, own = {one.name for one in numbers if one.changes and one.role is TopicRole.INPUT}, recovery.config.restore.topic_map
        wrong = [
            *(f"{name} has no name of its own" for name in sorted(names - own.keys())),
            *(f"{name} has its new number already, and would not be placed anew" for name in grown),
        ]
        if wrong:
            raise Refused(
                f"inputs cannot be copied into another number of partitions: {first_names(wrong)}",
                next_step="nothing was changed; give each a name in drill.topic_map, or take it out of drill.partitions",
                topics=wrong,
            )
        known = {*names, *(own[name] for name in names)}
        check_sources(
            manifest.application_id, saved_topics(manifest), topology, store_facts(recovery), anew=known, grown=(), history=self.history
        )
        warnings = stream_time_warnings(manifest.topics, numbers)
        return self._beside(manifest, _empty(manifest, numbers), numbers, warnings=warnings)

    def _placed_by_drill(self, manifest: Manifest, found: RescaleResult) -> RestoreSource:
        """The savepoint as the job of a drill has placed it. Its numbers were checked before, and what described the program may not answer any more."""
        topics = [RescaledTopic(name=one.topic, old=one.old, new=one.new) for one in found.logs]
        numbers = [TopicNumbers(name=one.name, role=_image_of(manifest, one.name).role, old=one.old, new=one.new) for one in topics]
        source = moved(manifest, topics, found, savepoint_id=manifest.savepoint_id, provenance=manifest.provenance)
        return self._beside(manifest, source, numbers, logs=found.logs)

    def _beside(
        self,
        manifest: Manifest,
        source: Manifest,
        numbers: Sequence[TopicNumbers],
        *,
        logs: tuple[RescaledLog, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> RestoreSource:
        rescaled = Rescaling(
            topics=tuple(numbers),
            anew=(),
            grown=(),
            history=self.history,
            proven_on=manifest.savepoint_id,
            named=True,
            logs=logs,
            tried=True,
            result=self.placed,
        )
        return RestoreSource(
            archive_entry=0,
            manifest=source,
            renumbered=[one.name for one in numbers if one.changes],
            part=RescalePart(rescaled=rescaled),
            warnings=warnings,
        )

    def _proven_on(self, store: SavepointStore, whose: str) -> Manifest:
        if self.savepoint != LATEST:
            return store.read(self.savepoint)
        found = store.latest(Consistency.EXACT, Profile.FULL)
        if found is None:
            raise NotFound(
                f"{whose} has no exact savepoint with its state, on which it could be proven where records lie",
                next_step="take one first; nothing is stopped before that is proven",
            )
        return found

    def _placed(self, recovery: RecoveryContext, manifest: Manifest) -> RestoreSource:
        """The savepoint with the records placed anew, and the ends that the inputs have which are replaced."""
        origin = manifest.provenance.rescaled_from
        if origin is None:
            raise Refused(f"the records of savepoint {self.derived} were not placed anew", next_step="begin the rescale again")
        check_state(recovery, recovery.savepoints, manifest)
        placed = {one.topic for one in origin.topics}
        before = origin_of(recovery, origin.savepoint_id)
        inputs = {topic.name: topic for topic in before.topics if topic.role is TopicRole.INPUT and topic.name in placed}
        there = recovery.cluster.describe_topics(list(inputs))
        ends = {
            TopicPartition(name, image.partition): image.end
            for name, topic in inputs.items()
            if name in there and there[name].topic_id == topic.topic_id
            for image in topic.partitions
        }
        numbers = [
            TopicNumbers(name=one.topic, role=_image_of(manifest, one.topic).role, old=one.old, new=one.new) for one in origin.topics
        ]
        rescaled = Rescaling(
            topics=tuple(numbers),
            anew=tuple(inputs),
            grown=(),
            history=self.history,
            proven_on=origin.savepoint_id,
            named=self.savepoint != LATEST,
            ends=ends,
        )
        return RestoreSource(
            archive_entry=0, manifest=manifest, again=tuple(inputs), renumbered=placed, part=RescalePart(rescaled=rescaled)
        )

    def savepoints(self, recovery: RecoveryContext, planned: RestorePlan) -> SavepointStore:
        return recovery.savepoints_of(in_earnest(recovery).application.id)


def in_earnest(recovery: RecoveryContext) -> ApplicationConfig:
    """The application that would get these numbers in earnest: that of which a drill tries it, else this one."""
    return recovery.config.of if isinstance(recovery.config, SandboxApplication) else recovery.config


def origin_of(recovery: RecoveryContext, savepoint_id: str) -> Manifest:
    """The savepoint whose records were placed anew: most often one that a rescale has taken for its undo."""
    return (recovery.safety if savepoint_id in recovery.safety.ids() else recovery.savepoints).read(savepoint_id)


def _image_of(manifest: Manifest, name: str) -> TopicImage:
    return next(topic for topic in manifest.topics if topic.name == name)


def _topology(recovery: RecoveryContext, text: str) -> DescribedTopology | None:
    if text:
        return described(text.encode())
    if recovery.config.application.topology_command is not None:
        return described_by_program(recovery)
    if isinstance(recovery.config, SandboxApplication):
        # That of the drill is not started yet.
        return topology_of(recovery.config.of)
    return recovery.application.topology()


def _refuse_elsewhere(recovery: RecoveryContext) -> None:
    """Others that have the same topics, or others made of them, know the old numbers."""
    config, others = in_earnest(recovery), [site for site in recovery.sites.names if site != recovery.site]
    why = None
    if not config.dialect.prefixed:
        why = f"an application of {config.dialect.product}, which places records in a way of its own"
    elif others:
        why = f"at home at other sites too ({first_names(others)}), where mirrored topics have the old numbers"
    elif config.clone is not None:
        why = f"a clone of {config.clone.of}, whose inputs it reads"
    if why is not None:
        raise Refused(
            f"{config.application.id} is {why}",
            next_step="nothing was changed; give its topics other numbers while it is alone, or rebuild its state from the input",
        )


def _check_anew(
    recovery: RecoveryContext, manifest: Manifest, anew: Sequence[TopicNumbers], there: Mapping[str, int], *, grown: Collection[str]
) -> None:
    """Raise ``Refused`` for inputs that cannot be created again under their names without a loss, or that other applications read. Those that were ``grown``
    stay, and must have their names too.
    """
    names, config = {one.name for one in anew}, in_earnest(recovery)
    others = {*recovery.configured(), *(recovery.cluster.groups() if names else ())} - {recovery.application_id, config.application.id}
    owners = {name: whose for name in sorted(names) if (whose := longer_owner(name, "", others)) is not None}
    declared = config.declared(manifest.profile, names)
    readers = [group for group in other_readers(recovery, (), names) if group.name != config.application.id] if names else []
    groups = [group for group in readers if group.committed or group.shares or group.reads]
    # A producer that is at work ends its own sooner, and is told to be stopped.
    opened = [
        one for one in recovery.transactions.blocking(_partitions(anew)) if one.hanging or (one.age_seconds or 0) * 1000 > _RECENTLY_MS
    ]
    problems = [
        *(
            f"{one.name} has {there[one.name]} partitions, and neither {one.old} nor {one.new}: take a savepoint first"
            for one in anew
            if there.get(one.name, one.old) != one.old
        ),
        *(f"{one.name} is gone" for one in anew if one.name not in there),
        *(
            f"the records of {name} are not archived (topics.include, or backup.survive_cluster_loss: true; then take a savepoint)"
            for name in sorted(names)
            if not (_image_of(manifest, name).archived and declared.archives(name, TopicRole.INPUT))
        ),
        *(f"{name} has another name here (restore.topic_map)" for name in sorted({*names, *grown} & config.restore.topic_map.keys())),
        *(f"{name} is a topic of application {whose}, whose state it has" for name, whose in owners.items()),
        *(f"group {group.name} reads {first_names(names)} too, and would have to move as well" for group in groups),
        *(f"a transaction is open on {one}" for one in opened),
    ]
    if problems:
        raise Refused(
            f"inputs of {config.application.id} cannot get another number: {'; '.join(problems)}",
            next_step="nothing was changed; do what each of these needs. An input that only grows can get more partitions where it is, once nothing in it "
            "is unread: then this takes it as it is",
            problems=problems,
            groups=[group.name for group in groups],
        ).then(*(recovery.transactions.remedy({one.tp for one in opened}, opened).commands if opened else ()))


def check_grown(
    recovery: RecoveryContext, committed: Mapping[TopicPartition, CommittedOffset | None], ends: Mapping[TopicPartition, int]
) -> None:
    """Raise ``Refused`` for inputs that were grown and have records between what is ``committed`` and their ``ends``: the old number has placed these. Markers
    of transactions are no records. An application that works at least once is given what was taken back, too: there every offset counts.
    """
    found = RecordLag(recovery).look(ends, committed, down=True)
    if recovery.config.application.guarantee is not Guarantee.EXACTLY_ONCE_V2 and ends:
        found = lags(committed, recovery.cluster.log_starts(list(ends)), recovery.cluster.last_stable_offsets(list(ends)), ends)
    unread = {str(tp): lag.left for tp, lag in found.items() if lag.left}
    if unread:
        raise Refused(
            f"inputs that were grown have unread records: {first_names([f'{tp} ({count:,} offsets)' for tp, count in unread.items()])}",
            next_step="nothing was changed; stop the producers, let the application process what is there with the old number, and grow the topic then",
            unread=unread,
        )


def _read_of(
    recovery: RecoveryContext, manifest: Manifest, grown: Sequence[str], *, named: bool
) -> tuple[Mapping[TopicPartition, CommittedOffset | None], Mapping[TopicPartition, int]]:
    """What is committed of inputs that were grown, and their ends: of the savepoint that was named, else as it is now."""
    images = {TopicPartition(name, image.partition): image for name in grown for image in _image_of(manifest, name).partitions}
    if named or not images:
        return {tp: image.committed for tp, image in images.items()}, {tp: image.end for tp, image in images.items()}
    there = recovery.cluster.describe_topics(grown)
    partitions = [TopicPartition(name, number) for name in grown for number in range(there[name].partitions)]
    return recovery.groups.committed(recovery.application_id, partitions), recovery.cluster.high_watermarks(partitions)


def _partitions(topics: Sequence[TopicNumbers]) -> list[TopicPartition]:
    return [TopicPartition(one.name, number) for one in topics for number in range(one.old)]


def _written_recently(recovery: RecoveryContext, anew: Sequence[TopicNumbers]) -> tuple[str, ...]:
    written = recovery.transactions.written(_partitions(anew)) if anew else {}
    since = recovery.clock() - _RECENTLY_MS
    last = {
        f"producer {one.producer_id} to {tp}": one.last_timestamp
        for tp, several in written.items()
        for one in several
        if one.last_timestamp >= since
    }
    if not last:
        return ()
    return (f"written to in the last ten minutes, until {moment(max(last.values()))}: by {first_names(sorted(last))}. Stop these first",)


def _written_by_others(recovery: RecoveryContext, names: Set[str]) -> tuple[str, ...]:
    near = recovery.configured()
    written = {one.application.id: names & {*one.topics.outputs} for one in recovery.applications().values() if one.application.id in near}
    return tuple(
        f"application {other} writes to {first_names(sorted(topics))}: stop it too, and start it when this run has ended"
        for other, topics in sorted(written.items())
        if topics
    )


def _empty(manifest: Manifest, numbers: Sequence[TopicNumbers]) -> Manifest:
    """The savepoint with the new numbers, and none of the records: where these go is found out once it is approved."""
    new = {one.name: one.new for one in numbers if one.changes}
    return replace(
        manifest,
        topics=tuple(
            replace(topic, tables=(), partitions=tuple(_no_records(number) for number in range(new[topic.name])))
            if topic.name in new
            else topic
            for topic in manifest.topics
        ),
    )


def _no_records(number: int) -> PartitionImage:
    begun = CommittedOffset(offset=0, metadata="", leader_epoch=None)
    return PartitionImage(partition=number, log_start=0, last_stable=0, end=0, leader_epoch=None, committed=begun, ranges=Ranges(), gaps=())
