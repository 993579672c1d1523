"""Single inputs, outputs or globals from a savepoint, while the state of the application stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.forms import FieldKind, FormField, savepoint_field
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import NAME, checked_name
from streams_recovery.core.repository.journal import RestoreScope
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.restore.failover import fewer_replicas
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.point_in_time import AsOf, LogCut, cut_log
from streams_recovery.core.restore.request import AS_OF, BY
from streams_recovery.core.restore.single_topics import ReadOn, WantedTopics, chosen_topics
from streams_recovery.core.words import LATEST, moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import check_files, check_published, pieces_of, pieces_with
from streams_recovery.operations.restore.strategies.as_of_moment import BaseSavepointFinder, RequestedBase
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy
from streams_recovery.operations.restore.topics_plan import TopicsSource, plan_topics
from streams_recovery.segments.queries import split_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTopics(RestoreStrategy):
    """Bring single ``topics`` back. ``savepoint`` is an id, or ``latest``: the newest that has records of all of them. Under ``new_name`` one topic comes back
    as a copy beside the present one; empty is for its own name. A moment in ``cut_at`` brings back only its records of then, ``partitions`` only those of
    these. ``read_on`` says where the application goes on in an input when nothing proves how far it had read.
    """

    KIND: ClassVar = "single_topics"
    DAG: ClassVar = "streams_restore_topics"
    COMMAND: ClassVar = "restore-topics"
    topics: Annotated[
        tuple[str, ...],
        FormField(
            title="Topics",
            kind=FieldKind.TOPICS,
            help="Inputs, outputs or globals of the application, one a line. Their records must be in the savepoint.",
            option_help="An input, output or global to bring back. Repeatable.",
            option="topic",
            required=True,
        ),
    ]
    new_name: Annotated[
        str,
        FormField(
            title="Another name",
            help="Empty: their own names, which must be gone or empty, while the application is stopped. A name: one topic comes back as a copy beside it.",
            option_help="Bring one topic back as a copy of this name. The application may run meanwhile.",
            option="as",
            pattern=f"|{NAME}",
            longest=249,
        ),
    ] = ""
    savepoint: Annotated[str, savepoint_field(latest="the newest one that has records of all of these topics")] = LATEST
    cut_at: Annotated[
        AsOf | None,
        replace(
            AS_OF,
            help="Only records of this moment or earlier. Empty: all of them.",
            option_help="Bring only its records of this moment or earlier back: 2026-11-21T12:00:00Z, or `configured`.",
        ),
        BY,
    ] = None
    partitions: Annotated[
        tuple[int, ...],
        FormField(
            title="Partitions",
            kind=FieldKind.NUMBERS,
            help="Only these, one a line. Under its own name the topic must be there, and these must be empty. Empty: all.",
            option_help="Bring only this partition back. Repeatable.",
            option="partition",
        ),
    ] = ()
    read_on: Annotated[
        ReadOn,
        FormField(
            title="Where the application reads on",
            kind=FieldKind.CHOICE,
            help="Counts only for an input under its own name of which nothing proves how far the application had read.",
            option_help="In an input of which nothing proves how far the application had read: refuse, or count some records twice, or some never.",
            default=ReadOn.PROVEN.value,
            choices={
                ReadOn.PROVEN.value: "Refuse when it is not proven",
                ReadOn.SAVEPOINT.value: "At the savepoint: some records may be counted twice",
                ReadOn.END.value: "At the end: some records may never be counted",
            },
        ),
    ] = ReadOn.PROVEN

    @property
    def scope(self) -> RestoreScope:
        return RestoreScope.COPIES if self.new_name else RestoreScope.TOPICS

    def plan(self, recovery: RecoveryContext, mine: Mapping[str, set[str]]) -> RestorePlan:
        """Raises what ``resolve`` and ``plan_topics`` do."""
        return plan_topics(recovery, self.resolve(recovery))

    def deployment(self, recovery: RecoveryContext, planned: RestorePlan) -> tuple[str, ...]:
        """Nothing is started."""
        return ()

    def resolve(self, recovery: RecoveryContext) -> TopicsSource:
        """The topics, and what the savepoint has of them. Raises what ``chosen_topics`` does, ``NotFound`` without a savepoint, ``Damaged`` for one that cannot
        be used, and ``Refused`` for a moment that its archive does not reach.
        """
        if self.new_name:
            checked_name("topic", self.new_name)
        manifest, unreadable = self._manifest(recovery)
        manifest, _ = fewer_replicas(manifest, factor=recovery.config.restore.replication_factor, brokers=None)
        wanted = WantedTopics(topics=self.topics, new_name=self.new_name, partitions=self.partitions)
        images = chosen_topics(manifest, wanted, recovery.config.topics.on(topic.name for topic in manifest.topics).declared)
        check_published(recovery, recovery.savepoints, manifest.savepoint_id)
        mine = tuple(replace(topic, partitions=tuple(one for one in topic.partitions if self._wants(one.partition))) for topic in images)
        cuts = {} if self.cut_at is None else _cuts(recovery, manifest, mine, self.cut_at)
        used = pieces_of(mine) if self.cut_at is None else pieces_with(mine, (file for cut in cuts.values() for file in cut.files))
        check_files(recovery, manifest, used)
        return TopicsSource(
            manifest=manifest, images=images, wanted=wanted, as_of=self.cut_at, cuts=cuts, read_on=self.read_on, unreadable=unreadable
        )

    def _wants(self, partition: int) -> bool:
        return not self.partitions or partition in self.partitions

    def _manifest(self, recovery: RecoveryContext) -> tuple[Manifest, tuple[str, ...]]:
        """The savepoint, and the newer ones that could not be read and were passed over for it."""
        if self.savepoint != LATEST:
            return recovery.savepoints.read(self.savepoint), ()
        newest: Manifest | None = None
        unreadable: list[str] = []
        for savepoint_id in reversed(recovery.savepoints.ids()):
            try:
                manifest = recovery.savepoints.read(savepoint_id)
            except Damaged:
                unreadable.append(savepoint_id)
                continue
            except NotFound:
                # It expired meanwhile.
                continue
            newest = newest or manifest
            if all((image := manifest.topic(name)) is not None and image.archived and image.rows for name in self.topics):
                return manifest, tuple(unreadable)
        if newest is None and unreadable:
            # It says what is the matter.
            recovery.savepoints.read(unreadable[0])
        if newest is None:
            raise NotFound(
                f"{recovery.application_id} has no savepoint in {recovery.repository.location}",
                next_step="without one the records are lost; take savepoints with these topics from now on",
                application_id=recovery.application_id,
            )
        # It says what is missing.
        return newest, tuple(unreadable)


def _cuts(recovery: RecoveryContext, manifest: Manifest, images: tuple[TopicImage, ...], as_of: AsOf) -> dict[TopicPartition, LogCut]:
    if manifest.captured_at < as_of.moment:
        raise Refused(
            f"savepoint {manifest.savepoint_id} was taken {moment(manifest.captured_at)}, and {moment(as_of.moment)} is later",
            next_step="leave the moment out, or choose a later savepoint",
            captured_at=manifest.captured_at,
            moment=as_of.moment,
        )
    wanted = RequestedBase(source=recovery.application_id, savepoint=manifest.savepoint_id)
    written = BaseSavepointFinder(recovery=recovery, wanted=wanted, as_of=as_of).written(manifest, as_of.moment)
    cuts = {
        TopicPartition(topic.name, image.partition): cut_log(
            image.files(),
            as_of,
            lambda file, at, below: split_at(recovery.repository, file, at, below),
            written=written.get(TopicPartition(topic.name, image.partition), 0),
        )
        for topic in images
        for image in topic.partitions
    }
    if not any(cut.rows.rows for cut in cuts.values()):
        raise Refused(
            f"no archived record of these topics is as old as {moment(as_of.moment)}",
            next_step="choose a later moment",
            moment=as_of.moment,
        )
    return cuts
