"""What a restore begins from: a savepoint as it is, or the state of one and the archived input from there up to a moment."""

from __future__ import annotations

from collections.abc import Sequence

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.offsets.strategy import StrategyKind
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.restore.placement import Placed
from streams_recovery.core.restore.plan import PointInTime, RestoreRequest
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.core.topic_holds.held_value import MIN_COMPACTION_LAG
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.base_savepoint import CUT_ROLES, NOTHING, BaseSavepointFinder, topic_of
from streams_recovery.operations.restore.chosen_savepoint import BEFORE, check_files, choose, pieces_of
from streams_recovery.operations.restore.interval import resolve_interval
from streams_recovery.operations.restore.source import RestoreSource, restored_state

_NAMED = 5
_HOUR_MS = 3_600_000


def resolve(recovery: RecoveryContext, request: RestoreRequest) -> RestoreSource:
    """What to restore. Raises what ``choose`` raises; for a moment ``Refused`` with the facts, when no savepoint and no archive fit it."""
    if request.in_place and (request.as_of is None or request.slice is not None):
        raise Refused("inputs are cut in place only at a moment", next_step="name one (as_of), or leave out in_place")
    if request.slice is not None:
        _check_offsets(request)
        return resolve_interval(recovery, request, request.slice)
    if request.as_of is None:
        if recovery.config.restore.time_window_end is not None:
            raise Refused(
                "restore.time_window_end is set, and this restore would bring back all of a savepoint",
                next_step="restore to that moment (streams_restore_pitr, `restore --as-of`), or remove it from the configuration",
            )
        return RestoreSource(manifest=choose(recovery, request), cuts={}, point=None)
    _check_request(recovery, request, request.as_of)
    _check_place(recovery, request)
    search = BaseSavepointFinder(recovery=recovery, request=request, as_of=request.as_of)
    base, archive = search.without_state() if request.savepoint == NOTHING else search.with_state()
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
        point=PointInTime(as_of=request.as_of, with_state=request.savepoint != NOTHING, archive=archive.savepoint_id),
        unreadable=tuple(search.unreadable),
    )


def of_moment(begin: RestoreSource, placed: Sequence[Placed]) -> tuple[str, ...]:
    """What to say before a restore to a moment: where the archive just ends, where it may have holes, and which globals are not of the moment."""
    if begin.point is None:
        return ()
    copied = {one.image.name for one in placed if one.made and one.image.role is TopicRole.INPUT}
    ends = () if begin.point.slice is not None else begin.cuts.items()
    whole = sorted(tp for tp, cut in ends if tp.topic in copied and cut.rows.first_later is None)
    existing = sorted(one.name for one in placed if one.image.role is TopicRole.GLOBAL and not one.made)
    warnings = []
    if whole:
        named = ", ".join(map(str, whole[:_NAMED])) + (f" and {len(whole) - _NAMED} more" if len(whole) > _NAMED else "")
        warnings.append(
            f"nothing later than the moment is archived of {named}: all of it is taken, and what came after the savepoint is not in it"
        )
    cleaned = sorted(one.image.name for one in placed if one.image.role in CUT_ROLES and one.made and _compacted_early(one.image))
    if cleaned:
        warnings.append(
            f"a version of a key that was replaced soon may have been compacted away before a savepoint copied it, in {', '.join(cleaned)}: give "
            f"them a {MIN_COMPACTION_LAG} longer than the time between savepoints"
        )
    if begin.unreadable:
        warnings.append(f"savepoints that could not be read, and their archive may reach further: {', '.join(begin.unreadable[:_NAMED])}")
    if existing:
        warnings.append(f"global topics are read as they are now, not as of the moment: {', '.join(existing)}")
    return tuple(warnings)


def _compacted_early(topic: TopicImage) -> bool:
    return "compact" in topic.config.get("cleanup.policy", "") and int(topic.config.get(MIN_COMPACTION_LAG, "0")) < _HOUR_MS


def _check_request(recovery: RecoveryContext, request: RestoreRequest, as_of: AsOf) -> None:
    if as_of.moment > recovery.clock():
        raise Refused(f"{moment(as_of.moment)} is not over yet", next_step="choose a moment of the past")
    _check_offsets(request)


def _check_offsets(request: RestoreRequest) -> None:
    if request.offsets.kind is not StrategyKind.EXACT:
        raise Refused(
            f"a restore to a moment goes on where its base ends, not by {request.offsets.text!r}",
            next_step="leave the offsets to exact, or restore a savepoint as it is",
        )
    if request.savepoint.startswith(BEFORE):
        raise Refused(
            "a safety savepoint is no base of a moment: it was taken in the middle of something",
            next_step="choose another savepoint, or let the base be found",
        )


def _check_place(recovery: RecoveryContext, request: RestoreRequest) -> None:
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
