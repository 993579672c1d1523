"""The first and the last step of a savepoint: lock and guard, and their release.

The checks at the end tell whether the logs that were read are still those the cut went through. Offsets mean nothing in another log under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.runs import PARTITIONS, PartitionFacts
from streams_recovery.core.errors import Damaged, LockLost, PermanentError, RecoveryError, Refused, StateDamaged, TransientError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import Profile, QuiesceMode, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.preflight.findings import PreflightFinding, as_findings, blocking, refused
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.savepoint.damage import ChangedState, require_whole
from streams_recovery.core.savepoint.request import CHANGED_STATE, SavepointRequest
from streams_recovery.core.savepoint.warnings import input_partitions
from streams_recovery.core.words import command, new_id
from streams_recovery.operations import preflight, quiesce_record, topic_holds
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import Discovery, discover, discover_remaining
from streams_recovery.operations.ownership import refuse_stop, role_by_logs
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, require_lock
from streams_recovery.operations.savepoint.damage import damage_before, last_savepoint
from streams_recovery.operations.savepoint.values import RESULT, SPEC, CutDraft, DraftTopic, FinishReport, Ticket
from streams_recovery.operations.unfinished import refuse_if_unfinished

LOGGER = logger("streams_recovery.operations.savepoint")


def begin(recovery: RecoveryContext, request: SavepointRequest) -> Ticket:
    """Take the application's lock, release what crashed runs left, and guard every log that is going to be read.

    An application that a killed run left paused or stopped is brought back first. All or nothing: on any error the lock and the guards are given back.
    Raises ``LockHeld`` when another run works on the application, ``Refused`` when a restore has left it half way, and ``Refused`` naming every
    missing right at once, and for a pause that the application would not survive; ``StateDamaged`` when state was lost or replaced since the last
    savepoint and the request does not say what to do then. What is merely unsafe is logged.
    """
    _check_mode(recovery, request)
    _check_confirmed(recovery, request)
    now = recovery.clock()
    lock = recovery.lock.acquire(owner(request), lease_seconds=LEASE_SECONDS, purpose=f"savepoint of {recovery.application_id}")
    try:
        savepoint_id = new_id(now, request.run_id, after=recovery.savepoints.ids())
        # Refused before anything is started: an application must not run on state that a restore has left half way.
        refuse_if_unfinished(recovery)
        recovery.sites.require_current(recovery.site)
        recovery.sites.lift_fences()
        quiesce_record.resume_abandoned(recovery)
        recovery.lock.renew(lock, lease_seconds=LEASE_SECONDS)
        # Made before anything is held still, if it is the first one of today.
        recovery.repository.data_keys.writing(recovery.application_id)
        for warning in preflight.required_for_backup(recovery, request.mode):
            LOGGER.warning("%s", warning)
        topic_holds.release_copy_holds(recovery)
        found = discover(recovery)
        recovery.lock.renew(lock, lease_seconds=LEASE_SECONDS)
        _check_state(recovery, found, request)
        mark = topic_holds.guard(recovery, savepoint_id, found.to_read)
        # Asked last: what was brought back above is to run after this savepoint too.
        running = tuple(i.name for i in not_gone(recovery))
        role = role_by_logs(recovery.application)
    except BaseException:
        _give_back(recovery, lock)
        raise
    policy = recovery.config.backup.consistency
    mode = request.mode or recovery.config.quiesce_mode
    return Ticket(
        application_id=recovery.application_id,
        savepoint_id=savepoint_id,
        request=request,
        mode=mode,
        fallback=QuiesceMode(policy.fallback) if mode is QuiesceMode.LIVE and policy.fallback != "none" else None,
        lock=lock,
        mark=mark,
        started_at=now,
        running=running,
        safety=False,
        expected=(),
        site=recovery.site,
        role=role,
    )


def before_savepoint(recovery: RecoveryContext, mode: QuiesceMode | None = None) -> tuple[PreflightFinding, ...]:
    """Findings that block or weaken a savepoint taken now: those of the preflight, and what the beginning of a savepoint would refuse then. Changes nothing."""
    found = preflight.before_backup(recovery, mode)
    if blocking(found):
        return found
    request = SavepointRequest(run_id="preflight", requested_by="preflight", reason="preflight", mode=mode)
    stops = (mode or recovery.config.quiesce_mode) is QuiesceMode.STOP and not_gone(recovery)
    asked: tuple[tuple[str, Callable[[], object]], ...] = (
        ("hold", lambda: _check_mode(recovery, request)),
        ("unfinished", lambda: refuse_if_unfinished(recovery)),
        ("site", lambda: recovery.sites.require_current(recovery.site)),
        ("topics", lambda: _check_state(recovery, discover(recovery), request)),
        *((("outputs", lambda: refuse_stop(recovery.application)),) if stops else ()),
    )
    refused = (one for kind, ask in asked if (one := _refusal(kind, ask)) is not None)
    return (*found, *refused, *_repartitioned(recovery))


def _repartitioned(recovery: RecoveryContext) -> tuple[PreflightFinding, ...]:
    last = last_savepoint(recovery)
    if last is None:
        return ()
    saved = input_partitions(last)
    there = {name: found.partitions for name, found in recovery.cluster.describe_topics(saved).items()}
    return as_findings(PARTITIONS.ask(Occasion.SAVEPOINT, PartitionFacts(savepoint_id=last.savepoint_id, there=there, saved=saved)))


def _refusal(kind: str, ask: Callable[[], object]) -> PreflightFinding | None:
    try:
        ask()
    except StateDamaged as error:
        return refused("state", error)
    except PermanentError as error:
        return refused(kind, error)
    return None


def _check_state(recovery: RecoveryContext, found: Discovery, request: SavepointRequest) -> None:
    """Raise ``StateDamaged`` when state was lost or replaced since the last savepoint, unless the request says what to do then."""
    if recovery.config.backup.profile is Profile.FULL:
        require_whole(recovery.application_id, damage_before(recovery, found), request.changed_state)


def _check_mode(recovery: RecoveryContext, request: SavepointRequest) -> None:
    """Raise ``Refused`` for a mode that is not possible. The configuration's own one was checked when it was loaded."""
    dialect = recovery.config.dialect
    if request.mode is not None and (impossible := dialect.refused.get(request.mode)) is not None:
        raise Refused(
            f"{recovery.application_id} cannot be held in mode {request.mode}: {impossible}",
            next_step=f"nothing was changed; take the savepoint in mode stop, the only one for applications of {dialect.product}",
            mode=request.mode.value,
        ).then(command("backup", recovery.config.name, "--mode", "stop"))
    why_not = recovery.config.no_pause_because
    if request.mode is QuiesceMode.PAUSE and (why_not is not None or not recovery.application.can_pause):
        raise Refused(
            f"{recovery.application_id} cannot be paused: {why_not or 'it offers no way to'}",
            next_step="nothing was changed; take the savepoint in mode stop or live",
        ).then(command("backup", recovery.config.name, "--mode", "live"))


def _check_confirmed(recovery: RecoveryContext, request: SavepointRequest) -> None:
    if request.changed_state is not ChangedState.REFUSE and request.confirm != recovery.application_id:
        raise Refused(
            f"a savepoint with changed_state {request.changed_state} needs the application id {recovery.application_id} typed to confirm it, not "
            f"{request.confirm!r}",
            next_step=f"nothing was changed; type it exactly, or leave {CHANGED_STATE.shown} out",
            application_id=recovery.application_id,
            confirm=request.confirm,
        )


def begin_safety(recovery: RecoveryContext, request: SavepointRequest, lock: LockTicket, expected: tuple[str, ...]) -> Ticket | None:
    """Begin a savepoint of what a restore is about to replace, under the restore's own ``lock``. The application must be down. ``expected`` are
    the topics that belong to it. Returns None when nothing of it is there that could be saved.
    """
    found, _ = discover_remaining(recovery, expected)
    if not found.inventory.names(TopicRole.CHANGELOG, TopicRole.REPARTITION) and not recovery.groups.committed_partitions(
        recovery.application_id
    ):
        return None
    now = recovery.clock()
    savepoint_id = recovery.safety.published_by_run(request.run_id) or new_id(now, request.run_id, after=recovery.safety.ids())
    topic_holds.release_copy_holds(recovery)
    mark = topic_holds.guard(recovery, savepoint_id, found.topics.values())
    return Ticket(
        application_id=recovery.application_id,
        savepoint_id=savepoint_id,
        request=request,
        mode=QuiesceMode.STOP,
        fallback=None,
        lock=lock,
        mark=mark,
        started_at=now,
        running=(),
        safety=True,
        expected=expected,
        site=recovery.site,
    )


def _give_back(recovery: RecoveryContext, lock: LockTicket) -> None:
    """Give back guard and lock, unless they are another run's by now. What cannot be given back stays recorded."""
    try:
        recovery.lock.renew(lock, lease_seconds=LEASE_SECONDS)
    except LockLost:
        return
    try:
        topic_holds.release_copy_holds(recovery)
    finally:
        recovery.lock.release(lock)


def owner(request: SavepointRequest) -> str:
    """The owner of the lock: one name for every task and every retry of one run."""
    return f"savepoint {request.run_id}"


def finish(recovery: RecoveryContext, ticket: Ticket) -> FinishReport:
    """Release the compaction guard and the lock, whatever became of the savepoint, and what restores still hold where nothing restored would
    expire by it any more. What cannot be released stays recorded, and the next run tries again; the lock goes in any case. Before all that the segments of a
    savepoint that was not published go, where that needs no right of its own: on a full disk nothing could be recorded.
    """
    removed = _without_a_savepoint(recovery, ticket)
    require_lock(recovery, ticket)
    released: tuple[str, ...] = ()
    still_held: tuple[str, ...] = ()
    try:
        released = topic_holds.release_copy_holds(recovery)
        still_held = tuple(f"{topic}: restored records would expire" for topic in topic_holds.release_restore_holds(recovery))
    except RecoveryError as error:
        still_held = (str(error),)
    recovery.lock.release(ticket.lock)
    return FinishReport(released=released, still_held=still_held, lock_released=True, removed=removed)


def _without_a_savepoint(recovery: RecoveryContext, ticket: Ticket) -> int:
    """Remove the segments that this run alone has written, if its copy has failed: then nothing can publish them. A task that is taken for dead may come back
    and publish a copy that has ended. In a directory only: in a bucket nothing but expiry needs the right to.
    """
    with suppress(RecoveryError):
        repository, left = recovery.repository, partial(recovery.artifacts.left, ticket.savepoint_id)
        if repository.location.backend == "filesystem" and _copy_has_failed(left) and recovery.lock.holds(ticket.lock):
            own = [key for key in repository.keys(recovery.layout.segments) if f"-{ticket.savepoint_id}-" in key.rpartition("/")[2]]
            repository.delete(own, emptied=True)
            return len(own)
    return 0


def _copy_has_failed(left: Callable[[str], bool]) -> bool:
    """True if the notes that a run has ``left`` say that it had records to copy, and that no job has copied them."""
    return left(SPEC) and not left(RESULT)


def check_same_application(before: Discovery, after: Discovery) -> None:
    """Raise ``TransientError`` when topics, partitions or leaders changed between two surveys: what was read in between is not one moment."""
    changes = [
        *(f"topic {name} appeared" for name in sorted(set(after.topics) - set(before.topics))),
        *(f"topic {name} vanished" for name in sorted(set(before.topics) - set(after.topics))),
        *(
            change
            for name in sorted(set(before.topics) & set(after.topics))
            if (change := _difference(before.topics[name], after.topics[name])) is not None
        ),
    ]
    if changes:
        raise TransientError(
            f"the application changed while the cut was read: {'; '.join(changes)}",
            next_step="run the savepoint again",
            changes=changes,
            partitions={
                name: (before.topics[name].partitions, after.topics[name].partitions)
                for name in sorted(set(before.topics) & set(after.topics))
                if before.topics[name].partitions != after.topics[name].partitions
            },
        )


def _difference(before: TopicDescription, after: TopicDescription) -> str | None:
    if before.topic_id != after.topic_id:
        return f"topic {before.name} was created again: topic id {before.topic_id} became {after.topic_id}"
    if before.partitions != after.partitions:
        return f"topic {before.name} had {before.partitions} partitions and has {after.partitions}"
    if before.leader_epochs != after.leader_epochs:
        return f"leaders of topic {before.name} changed"
    return None


def check_same_logs(recovery: RecoveryContext, draft: CutDraft) -> tuple[str, ...]:
    """Raise ``Damaged`` unless every topic of the cut is still the same, and none of its logs was cut back below the cut's end. Returns what changed
    without harm, in sentences: partitions that were added after the cut.
    """
    now = recovery.cluster.describe_topics([topic.name for topic in draft.topics])
    others = other_topics(draft.topics, now)
    if others:
        raise Damaged(
            f"the copy is not of one log: {'; '.join(others)}",
            next_step="run the savepoint again; what was created again is copied in full",
            topics=others,
            ids={
                topic.name: (topic.topic_id, now[topic.name].topic_id if topic.name in now else None)
                for topic in draft.topics
                if topic.name not in now or now[topic.name].topic_id != topic.topic_id
            },
        )
    epochs = {cut.tp: cut.leader_epoch for topic in draft.topics for cut in topic.partitions if cut.leader_epoch is not None}
    ends = recovery.cluster.epoch_ends(epochs)
    cut_back = truncated(draft.topics, ends)
    if cut_back:
        raise Damaged(
            f"logs were truncated after the cut: {'; '.join(cut_back)}",
            next_step="find out why a broker lost acknowledged records, then run the savepoint again",
            partitions=cut_back,
            ends={str(cut.tp): (ends[cut.tp], cut.end) for topic in draft.topics for cut in topic.partitions if cut.tp in ends},
        )
    return grown(draft.topics, now)


def other_topics(topics: Iterable[DraftTopic], now: Mapping[str, TopicDescription]) -> list[str]:
    """Topics of a cut that are gone, or are others under the same name, with both ids."""
    return [
        f"topic {topic.name} (id {topic.topic_id}) was deleted"
        if topic.name not in now
        else f"topic {topic.name} was created again: topic id {topic.topic_id} became {now[topic.name].topic_id}"
        for topic in topics
        if topic.name not in now or now[topic.name].topic_id != topic.topic_id
    ]


def truncated(topics: Iterable[DraftTopic], ends: Mapping[TopicPartition, int | None]) -> list[str]:
    """Partitions whose records up to the cut's leader epoch end before the cut does. An end is None if the broker cannot tell."""
    return [
        f"{cut.tp} ends at {end} for leader epoch {cut.leader_epoch}, the cut at {cut.end}"
        for topic in topics
        for cut in topic.partitions
        if (end := ends.get(cut.tp)) is not None and end < cut.end
    ]


def grown(topics: Iterable[DraftTopic], now: Mapping[str, TopicDescription]) -> tuple[str, ...]:
    """Topics that were given partitions after the cut."""
    return tuple(
        f"{topic.name} was given partitions after the cut: it has {now[topic.name].partitions}, {len(topic.partitions)} are in this savepoint"
        for topic in topics
        if now[topic.name].partitions != len(topic.partitions)
    )
