"""The state of a savepoint, or none, and the archived input from there up to a moment."""

from __future__ import annotations

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.restore.plan import PointInTime
from streams_recovery.core.restore.request import NO_STATE, AsOfMoment
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.savepoint_checks import check_files, pieces_of
from streams_recovery.operations.restore.source import RestoreSource, restored_state
from streams_recovery.operations.restore.strategies.base_savepoint import Base, BaseSavepointFinder, topic_of

_NAMED = 5
_HOUR_MS = 3_600_000


def resolve(recovery: RecoveryContext, request: AsOfMoment) -> RestoreSource:
    """What to restore. Raises ``Refused`` with the facts when no savepoint and no archive fit the moment, and ``Damaged`` for files that cannot be used."""
    if request.as_of.moment > recovery.clock():
        raise Refused(f"{moment(request.as_of.moment)} is not over yet", next_step="choose a moment of the past")
    _check_place(recovery, request)
    search = BaseSavepointFinder(recovery=recovery, wanted=Base.of(recovery, request), as_of=request.as_of)
    base, archive = search.without_state() if request.savepoint == NO_STATE else search.with_state()
    cuts = search.cuts(archive)
    wanted = [piece for piece in pieces_of(archive.topics) if piece[0] in cuts and piece[1].file in cuts[piece[0]].files]
    check_files(recovery, archive, wanted)
    if not any(cut.rows.rows for tp, cut in cuts.items() if topic_of(archive, tp.topic).role is TopicRole.INPUT):
        raise Refused(
            f"no archived input of {archive.application_id} is as old as {moment(request.as_of.moment)}",
            next_step="choose a later moment; there is no state before the first record",
        )
    return RestoreSource(
        manifest=restored_state(base, archive, cuts, recovery.config.application.auto_offset_reset),
        cuts=cuts,
        point=PointInTime(as_of=request.as_of, with_state=request.savepoint != NO_STATE, archive=archive.savepoint_id),
        unreadable=tuple(search.unreadable),
        may_move=request.groups if request.in_place else None,
    )


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
        )
