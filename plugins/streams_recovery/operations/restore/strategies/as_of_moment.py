"""The state of a savepoint, or none, and the archived input from there up to a moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streams_recovery.core.errors import Refused
from streams_recovery.core.forms import CONFIRM, FieldKind, FormField
from streams_recovery.core.ids import LATEST
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.restore.plan import PointInTime, RestorePlan
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import (
    ALLOW_AHEAD,
    AS_OF,
    BASE,
    BY,
    COMPARE_KEYS,
    DELETE,
    IN_PLACE,
    NO_STATE,
    REASON,
    REPLACE,
    SAFETY,
)
from streams_recovery.core.timestamps import moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.savepoint_checks import check_files, pieces_with
from streams_recovery.operations.restore.source import RestoreSource, restored_state
from streams_recovery.operations.restore.strategies.base_savepoint import BaseSavepointFinder, RequestedBase, topic_of
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy, named, named_entry

_NAMED = 5
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfMoment(RestoreStrategy):
    """The application as it was at a moment: the state of a savepoint and the archived input from there to the moment. ``savepoint`` is the id of the
    base, or ``latest``: the newest one that had read nothing later, or ``none``: all state is built from the archived input. ``source`` is the
    application id whose past it is, empty for the application's own.
    With ``in_place`` the application's own inputs are cut at the moment, which takes their later records away from everybody: ``groups`` names each
    other group that has read them, to say that it may be moved. What was archived behind the newest savepoint counts up to ``archive_entry``: see
    ``RestoreSource``.
    """

    KIND: ClassVar = "as_of_moment"
    DAG: ClassVar = "streams_restore_pitr"
    COMMAND: ClassVar = "restore"
    FORM: ClassVar = (
        AS_OF,
        BY,
        BASE,
        replace(ALLOW_AHEAD, title="Allow a named base that may count some input twice"),
        IN_PLACE,
        FormField(
            name="groups",
            title="Other groups to move",
            kind=FieldKind.GROUPS,
            help="Only with in_place: every other consumer group that has read the inputs, one a line. They must be empty.",
            option_help="With --in-place: another group that has read the inputs and is moved too. Repeatable.",
            option="other-group",
        ),
        REPLACE,
        DELETE,
        SAFETY,
        COMPARE_KEYS,
        CONFIRM,
        REASON,
    )
    as_of: AsOf
    source: str = ""
    savepoint: str = LATEST
    allow_ahead: bool = False
    in_place: bool = False
    groups: tuple[str, ...] = ()
    archive_entry: int | None = None

    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """What to restore. Raises ``Refused`` with the facts when no savepoint and no archive fit the moment, and ``Damaged`` for files that cannot be used."""
        if self.as_of.moment > recovery.clock():
            raise Refused(f"{moment(self.as_of.moment)} is not over yet", next_step="choose a moment of the past")
        _check_place(recovery, self)
        wanted = RequestedBase(source=self.source or recovery.application_id, savepoint=self.savepoint, allow_ahead=self.allow_ahead)
        # What is cut out of inputs in place stays in a savepoint, from which it can be appended again.
        search = BaseSavepointFinder(
            recovery=recovery, wanted=wanted, as_of=self.as_of, archive_entry=0 if self.in_place else self.archive_entry
        )
        base, archive = search.without_state() if self.savepoint == NO_STATE else search.with_state()
        cuts = search.cuts(archive)
        check_files(recovery, archive, pieces_with(archive.topics, (file for cut in cuts.values() for file in cut.files)))
        if not any(cut.rows.rows for tp, cut in cuts.items() if topic_of(archive, tp.topic).role is TopicRole.INPUT):
            raise Refused(
                f"no archived input of {archive.application_id} is as old as {moment(self.as_of.moment)}",
                next_step="choose a later moment; there is no state before the first record",
                application_id=archive.application_id,
                moment=self.as_of.moment,
            )
        return RestoreSource(
            manifest=restored_state(base, archive, cuts, recovery.config.application.auto_offset_reset),
            cuts=cuts,
            point=PointInTime(as_of=self.as_of, with_state=self.savepoint != NO_STATE, archive=archive.savepoint_id),
            unreadable=tuple(search.unreadable),
            passed_archive=search.passed_archive,
            may_move=self.groups if self.in_place else None,
            archived=search.archived(archive),
        )

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        entry = named_entry(self.archive_entry, planned)
        return replace(self, savepoint=named(self.savepoint, planned.savepoint_id), archive_entry=entry)


def _check_place(recovery: RecoveryContext, request: AsOfMoment) -> None:
    """In place, the input that came later would be processed too, so it has to come out, and that has to be asked for."""
    newest = recovery.savepoints.latest() if (request.source or recovery.application_id) == recovery.application_id else None
    here = newest is not None and newest.cluster_id == recovery.cluster.cluster_id()
    if request.in_place and not here:
        raise Refused(
            "only an application's own inputs, on the cluster that its savepoints were taken of, are cut in place",
            next_step="leave out in_place: another application or another cluster gets copies",
        )
    if here and not request.in_place:
        raise Refused(
            f"{recovery.application_id} cannot be brought to a moment in place: its inputs go on behind it, and others read them",
            next_step="configure a second application (an id, outputs and copies of the inputs of its own, restore.topic_map), and restore "
            f"that one with {recovery.application_id} as its source; or restore into another cluster; or stop all producers and other readers of the "
            "inputs and have these cut (in_place)",
            application_id=recovery.application_id,
        )
