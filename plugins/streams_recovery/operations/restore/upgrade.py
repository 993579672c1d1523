"""An upgrade in place, from the state that is saved to a new version that was watched; and the way back to the old one."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from dataclasses import replace
from typing import Final

from streams_recovery.application.command import CONFIRM_SECONDS, run_program
from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import NotExact, NotFound, PlanChanged, Refused, TransientError, VersionFailed
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.restore.request import Safeguards
from streams_recovery.core.rollout.upgrade import Restarts, VersionChange, Watch, Watched, WatchLook, check_worse
from streams_recovery.core.waiting import poll
from streams_recovery.core.words import command
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.bring_down import bring_down
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import input_partitions, internal_topics, repartition_partitions
from streams_recovery.operations.lag import RecordLag
from streams_recovery.operations.renewed_lock import HeldLock, renewed_lock, require_held
from streams_recovery.operations.restore.evidence import keep_evidence
from streams_recovery.operations.restore.open import (
    abandon,
    end_lock,
    entries,
    guarded,
    lock_within,
    note,
    phase_of,
    resume_command,
    stored_plan,
)
from streams_recovery.operations.restore.report import Checked, report_of
from streams_recovery.operations.restore.start import WIPED, removed_state
from streams_recovery.operations.restore.strategies import Undo, UpgradeInPlace
from streams_recovery.operations.restore.values import AbandonReport, RestoreTicket, VersionChecked, verify_summary
from streams_recovery.operations.unfinished import unfinished_restore

LOGGER = logger("streams_recovery.operations.restore.upgrade")
_WATCHED: Final = "watched"
# What a run of another kind may hold the lock for while a version that failed waits to be stopped.
LOCK_WAIT_SECONDS: Final = 600.0
# Often enough to see an instance that ends and is started again from outside.
_LOOK_SECONDS = 2.0


def check_version(recovery: RecoveryContext, ticket: RestoreTicket) -> VersionChecked:
    """Compare the new version once more, now with the savepoint of the state that the old one has left, which is exact and the way back. Local state is removed
    where the new version has no use for it. From here on the application is started by this upgrade alone.

    Raises ``NotExact`` and ``Refused`` where there is no such way back or more would be lost, and ``PlanChanged`` for another version than was approved.
    """
    guarded(recovery, ticket, at_least=Phase.SAVED, before=Phase.STARTED)
    approved, request = _approved(stored_plan(recovery, ticket), ticket), _request(ticket)
    manifest = _saved(recovery, ticket)
    if manifest.consistency is not Consistency.EXACT:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `{manifest.consistency}`, so the way back would not be exact: {'; '.join(manifest.proof.reasons)}",
            next_step="nothing was deployed, and the old version is started again; give it more time to stop (stop_timeout_seconds), then begin again",
            savepoint=manifest.savepoint_id,
        )
    change = request.change(recovery, manifest, again=True)
    if change.topology != approved.topology:
        raise PlanChanged(
            "the new version describes itself otherwise than when it was approved",
            next_step="nothing was deployed, and the old version is started again; begin the upgrade again, and read its plan",
        )
    check_worse(approved, change)
    report = removed_state(recovery, ticket) if approved.wipes or change.wipes else None
    note(recovery, ticket, Phase.WIPED, result=None if report is None else recovery.artifacts.write(ticket.restore_id, WIPED, report))
    return VersionChecked(savepoint_id=manifest.savepoint_id, verdict=change.verdict, removed=report.removed if report else ())


def watch(recovery: RecoveryContext, ticket: RestoreTicket) -> Watched:
    """Watch the new version for as long as the plan says. The result is kept: a version that was watched is not taken back by itself any more. Raises
    ``VersionFailed`` as soon as it does not do its work, with the look that showed it, and if it is not the version that was described.
    """
    guarded(recovery, ticket, at_least=Phase.RECOVERED, before=Phase.CLOSED)
    if (before := _watched(recovery, ticket)) is not None:
        return before
    change = _approved(stored_plan(recovery, ticket), ticket)
    limits = change.watch
    with renewed_lock(recovery, ticket):
        _check_topics(recovery, ticket, change)
        found = _looked_at(recovery, limits, change)
        if found.failure is None:
            _check_topics(recovery, ticket, change)
            _warn_if_the_same(recovery, change)
    if found.failure is not None:
        raise _failed(recovery, ticket, f"after {found.seconds:.0f} s: {found.failure}", seconds=found.seconds, behind=found.behind)
    recovery.artifacts.write_once(ticket.restore_id, _WATCHED, found)
    return found


def _looked_at(recovery: RecoveryContext, limits: Watch, change: VersionChange) -> Watched:
    """Look for as long as there is something to see, and return what was seen."""
    began, lag, restarts, found = time.monotonic(), RecordLag(recovery), Restarts(), Watched()

    def look() -> Watched | None:
        nonlocal found
        at = time.monotonic() - began
        try:
            found = found.after(_look(recovery, change, lag, restarts, at), limits)
        except TransientError as error:
            found = found.unanswered(at, error.reason, limits)
        return found if found.over(limits) else None

    seen = poll(
        look,
        # What is not at work for its patience has failed.
        seconds=limits.seconds + 2 * limits.patience,
        interval=min(_LOOK_SECONDS, limits.seconds / 10),
        what=f"the new version of {recovery.application_id}, watched for {limits.seconds:.0f} s",
        message=lambda: f"{found.behind:,} records left",
    )
    return found.without_an_end() if seen is None else seen


def _failed(recovery: RecoveryContext, ticket: RestoreTicket, why: str, **facts: object) -> VersionFailed:
    return VersionFailed(
        f"the new version of {recovery.application_id} failed {why}",
        next_step="see the instances' logs. It is taken back; where that does not happen by itself, undo this upgrade",
        **facts,
    ).then(_undo_command(recovery, ticket), resume_command(recovery, ticket))


def _check_topics(recovery: RecoveryContext, ticket: RestoreTicket, change: VersionChange) -> None:
    """Raise ``VersionFailed`` unless what runs is what was compared: its description has each internal topic that it has made."""
    known, there = {topic.name for topic in _saved(recovery, ticket).topics} | set(change.new_topics), set(internal_topics(recovery))
    strange = sorted(there - known)
    if strange:
        raise _failed(
            recovery,
            ticket,
            f"the check: it has made internal topics that its description does not have: {', '.join(strange)}, so another version was compared than runs",
            topics=strange,
        )


def _warn_if_the_same(recovery: RecoveryContext, change: VersionChange) -> None:
    """Say that the version that was there before may run. No failure: a description has a changelog of a store that is restored from its source, too."""
    if change.new_topics and not set(change.new_topics) & set(internal_topics(recovery)):
        LOGGER.warning(
            "nothing shows that another version of %s runs than before: it has made none of the internal topics that its description adds, %s; see whether "
            "deploy.command has deployed it",
            recovery.application_id,
            ", ".join(change.new_topics),
        )


def _watched(recovery: RecoveryContext, ticket: RestoreTicket) -> Watched | None:
    try:
        return recovery.artifacts.read_once(Watched, ticket.restore_id, _WATCHED)
    except NotFound:
        return None


def _look(recovery: RecoveryContext, change: VersionChange, lag: RecordLag, restarts: Restarts, at: float) -> WatchLook:
    """Committed offsets are read before the ends: input that comes in between adds to the lag of this look only. An input without an offset may begin at its
    end, so how much of it is left is unknown.
    """
    read = {tp for tp in (*input_partitions(recovery), *repartition_partitions(recovery)) if tp.topic not in change.left_inputs}
    committed = {tp: known for tp, known in recovery.groups.last_committed(recovery.application_id).items() if tp in read}
    ends = recovery.cluster.last_stable_offsets(list(committed)) if committed else {}
    left = lag.look(ends, committed)
    statuses = recovery.application.status()
    again = restarts.more({(one.name, one.host): one.restarts for one in statuses})
    ended = [
        one
        for one in statuses
        if one.state is InstanceState.GONE or one.streams_state in quiesce_record.ENDING or (one.name, one.host) in again
    ]
    busy = [one for one in statuses if one not in ended and one.streams_state != "RUNNING"]
    behind, offsets = Counter[str](), Counter[str]()
    for tp, known in committed.items():
        offsets[tp.topic] += known.offset
        behind[tp.topic] += left[tp].left if tp in left else 0
    return WatchLook(
        at=at,
        ended=tuple(f"{one.name} {one.streams_state or one.state} ({one.detail})" for one in ended)
        or (() if statuses else ("all of them",)),
        busy=tuple(f"{one.name} {one.streams_state or one.state}" for one in busy),
        behind=behind,
        committed=offsets,
    )


def finish_upgrade(recovery: RecoveryContext, ticket: RestoreTicket, watched: Watched) -> RestoreReport:
    """Write the evidence, and give the lock back. The savepoint of the old version's state stays: ``undo`` takes the new version back later, too."""
    guarded(recovery, ticket, at_least=Phase.RECOVERED, before=Phase.CLOSED)
    planned = stored_plan(recovery, ticket)
    checked = Checked(verified=verify_summary(()), query_checks=())
    report = replace(report_of(recovery, ticket, planned, checked, entries(recovery, ticket), ()), watched=watched)
    report = keep_evidence(recovery.repository, recovery.layout, report)
    quiesce_record.end(recovery)
    note(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)
    return report


def abandon_upgrade(recovery: RecoveryContext, ticket: RestoreTicket) -> AbandonReport:
    """Leave an upgrade that did not finish. Before the new version was deployed the old one goes on as it was. Where its deployment failed and the state is
    proven to be as it was, the old one is deployed again and started. After that the application is left as it is, and ``undo`` takes it back.

    Repeating it does what is left to do. Raises what ``abandon`` raises, and what running the program that takes back does.
    """
    # Another restore may have begun on the application since, and says what is to become of it.
    failed = phase_of(recovery, ticket) is Phase.WIPED and unfinished_restore(recovery) == ticket.restore_id
    if (failed or _comes_back(recovery, ticket)) and _old_version_back(recovery, ticket):
        goes_on = "the old version goes on as it was" if ticket.running else "the old version is there again, and down as it was"
        return AbandonReport(phase=Phase.WIPED, restarted=bool(ticket.running), next_step=goes_on, commands=())
    left = abandon(recovery, ticket)
    if not _deployed(recovery, ticket):
        return left
    return replace(
        left,
        next_step="the new version may have worked on the state: unless it is taken back now, undo the upgrade, or resume it to go on with that version",
        commands=(_undo_command(recovery, ticket), resume_command(recovery, ticket)),
    )


def _old_version_back(recovery: RecoveryContext, ticket: RestoreTicket) -> bool:
    """Put the old version back, or wait for what an earlier attempt has put back and that was not up in time. False where only a restore can."""
    lock = end_lock(recovery, ticket, f"end of upgrade {ticket.restore_id}")
    try:
        if phase_of(recovery, ticket) is Phase.WIPED and (
            unfinished_restore(recovery) != ticket.restore_id or not _put_back(recovery, ticket, lock)
        ):
            return False
        if _comes_back(recovery, ticket):
            quiesce_record.resume_abandoned(recovery)
        return True
    finally:
        recovery.lock.release(lock)


def _comes_back(recovery: RecoveryContext, ticket: RestoreTicket) -> bool:
    held = quiesce_record.left(recovery)
    return held is not None and held.run == _back_run(ticket)


def _back_run(ticket: RestoreTicket) -> str:
    return f"{ticket.restore_id}-back"


def _put_back(recovery: RecoveryContext, ticket: RestoreTicket, lock: LockTicket) -> bool:
    """Deploy the old version and start it, where nothing has touched its state. False where something has, which only its savepoint can put right: that is on
    record then.
    """
    recovery.sites.require_current(recovery.site)
    approved, deploy = _approved(stored_plan(recovery, ticket), ticket), recovery.config.deploy
    why = _touched(recovery, _saved(recovery, ticket))
    if why is not None:
        LOGGER.warning("the deployment of the new version of %s failed, and its state is not as it was: %s", recovery.application_id, why)
        note(recovery, ticket, Phase.DEPLOYED)
        return False
    if deploy is None or deploy.roll_back != approved.roll_back:
        raise Refused(
            f"the old version of {recovery.application_id} is not put back: deploy.roll_back is not what was approved, {shlex.join(approved.roll_back)}",
            next_step="set it to that, then undo the upgrade; or resume it to go on with the new version",
        ).then(_undo_command(recovery, ticket), resume_command(recovery, ticket))
    environment = {"APPLICATION_ID": recovery.application_id, "SITE": recovery.site}
    held = HeldLock(lock=lock)
    with renewed_lock(recovery, held):
        # A step that Airflow has ended may be deploying yet: it ends its program once it sees that its lock is lost.
        time.sleep(2 * CONFIRM_SECONDS)
        run_program(
            list(approved.roll_back),
            environment,
            verb="deploy the old version",
            seconds=deploy.timeout_seconds,
            confirm=lambda: require_held(recovery, held),
        )
    if ticket.running:
        # On record before the upgrade is over: the next run starts the instances if this run dies before it does.
        quiesce_record.begin(recovery, _back_run(ticket), QuiesceMode.STOP, ticket.running)
    note(recovery, ticket, Phase.CLOSED)
    return True


def _touched(recovery: RecoveryContext, saved: Manifest) -> str | None:
    """The difference between the state and the savepoint that was taken when the application was down; None if there is no difference."""
    alive = [one.name for one in not_gone(recovery)]
    if alive:
        return f"{', '.join(alive)} run"
    images = {topic.name: topic for topic in saved.topics if topic.role.internal}
    found = recovery.cluster.describe_topics(internal_topics(recovery))
    other = sorted(
        name
        for name in found.keys() | images.keys()
        if name not in images or name not in found or found[name].topic_id != images[name].topic_id
    )
    if other:
        return f"topics are others: {', '.join(other)}"
    ends = {TopicPartition(name, one.partition): one.end for name, topic in images.items() for one in topic.partitions}
    grown = sorted(str(tp) for tp, end in recovery.cluster.high_watermarks(list(ends)).items() if end != ends[tp]) if ends else []
    if grown:
        return f"records were written to {', '.join(grown)}"
    wanted = {
        TopicPartition(topic.name, one.partition): (one.committed.offset, one.committed.metadata)
        for topic in saved.topics
        for one in topic.partitions
        if one.committed is not None
    }
    now = {tp: (known.offset, known.metadata) for tp, known in recovery.groups.last_committed(recovery.application_id).items()}
    moved = sorted(str(tp) for tp in wanted.keys() | now.keys() if wanted.get(tp) != now.get(tp))
    return f"committed offsets are others on {', '.join(moved)}" if moved else None


def _deployed(recovery: RecoveryContext, ticket: RestoreTicket) -> bool:
    """True when the new version may have been started and this upgrade is not over: only its savepoint leads back then."""
    phase = phase_of(recovery, ticket)
    return Phase.DEPLOYED.rank <= phase.rank < Phase.CLOSED.rank and unfinished_restore(recovery) == ticket.restore_id


def way_back(recovery: RecoveryContext, ticket: RestoreTicket) -> Undo | None:
    """The restore that takes back a failed upgrade, as its plan said. None if nothing has to be taken back, or if the new version has been watched and only the
    report is not written. A person has approved it with that plan.
    """
    if not isinstance(ticket.request, UpgradeInPlace):
        return None
    if not _deployed(recovery, ticket) or _watched(recovery, ticket) is not None:
        return None
    return Undo(
        restore_id=ticket.restore_id,
        reason=f"upgrade {ticket.restore_id} failed: {ticket.request.reason}",
        safeguards=Safeguards(replace=True, confirm=recovery.application_id),
    )


def stop_failed(recovery: RecoveryContext, ticket: RestoreTicket) -> None:
    """Stop a failed version before its way back is planned: it must do no more harm, also if that fails, and must not change the facts of the plan. Waits for
    a run of another kind that has the lock. Raises ``LockHeld`` after that, and what stopping raises.
    """
    lock = lock_within(recovery, ticket.lock.owner, f"stop of what upgrade {ticket.restore_id} has deployed", LOCK_WAIT_SECONDS)
    try:
        bring_down(recovery, anyway=True)
    finally:
        recovery.lock.release(lock)


def _undo_command(recovery: RecoveryContext, ticket: RestoreTicket) -> str:
    """The command that takes the new version back."""
    return command("undo", recovery.config.name, ticket.restore_id, "--reason", "the new version failed")


def _saved(recovery: RecoveryContext, ticket: RestoreTicket) -> Manifest:
    """The savepoint of what the old version has left. Raises ``Refused`` where nothing was saved."""
    saved = recovery.safety.published_by_run(ticket.restore_id)
    if saved is None:
        raise Refused(
            f"nothing of {recovery.application_id} was saved, so there would be no way back",
            next_step="nothing was deployed; an application without state or offsets needs no upgrade in place: deploy it",
        )
    return recovery.safety.read(saved)


def _request(ticket: RestoreTicket) -> UpgradeInPlace:
    if isinstance(ticket.request, UpgradeInPlace):
        return ticket.request
    raise Refused(f"restore {ticket.restore_id} is no upgrade", next_step="trigger a new run instead of clearing tasks of this one")


def _approved(planned: RestorePlan, ticket: RestoreTicket) -> VersionChange:
    _request(ticket)
    if planned.part.new_version is None:
        raise Refused(f"the plan of {ticket.restore_id} is no upgrade", next_step="begin the upgrade again")
    return planned.part.new_version
