"""Rules about savepoints, and about the runs that take or restore them: what they leave behind, and the lock that they hold.

The age of the newest exact savepoint is held against the objective, or against the schedule where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streams_recovery.core.checks.check import Occasion, Severity
from streams_recovery.core.checks.savepoints import AHEAD, CLUSTER_LOSS, SEALS, ClusterLoss, FutureRecords
from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.remedies.locks import end_record, take_lock
from streams_recovery.core.repository.seal import forged_text
from streams_recovery.core.status.facts import ObservedApplication, PartName, RepositoryFacts, RestoreState, Rule, finding, found_in_look
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.core.words import command, first_names, span

# Ids, records or topics in a text.
_NAMED: Final = 3

NONE, OLD, LATE = "no-savepoint", "savepoint-too-old", "savepoint-late"


def _find_savepoint_age(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    remedies = [command("backup", observed.name)]
    newest = observed.newest_exact
    if newest is None:
        # Not to be read as "none": the repository could not be looked at.
        if observed.repository is not None:
            yield finding(NONE, Severity.CRITICAL, "there is no exact savepoint: the application cannot be brought back", remedies=remedies)
        return
    age = observed.age(newest.captured_at)
    if limits.newest_age is not None:
        if age > limits.newest_age:
            yield finding(
                OLD,
                Severity.CRITICAL,
                f"the newest exact savepoint is {span(age)} old, the objective is {span(limits.newest_age)}",
                remedies=remedies,
                numbers={"age_seconds": age, "objective_seconds": limits.newest_age},
            )
    elif limits.late_after is not None and age > limits.late_after:
        yield finding(
            LATE,
            Severity.WARNING,
            f"the newest exact savepoint is {span(age)} old; by the schedule it should be {span(limits.late_after)} at most",
            remedies=remedies,
            numbers={"age_seconds": age, "limit_seconds": limits.late_after},
        )


NOT_EXACT = "newest-not-exact"


def _find_savepoint_consistency(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    newest = observed.newest
    if newest is None or newest.consistency in (Consistency.EXACT, Consistency.EDITED):
        return
    yield finding(
        NOT_EXACT,
        Severity.CRITICAL if newest.consistency is Consistency.DAMAGED else Severity.WARNING,
        f"the newest savepoint {newest.savepoint_id} is labelled {newest.consistency}, so it is not restored by default",
        remedies=[command("savepoints", "show", observed.name, newest.savepoint_id), command("backup", observed.name)],
    )


FAILED = "savepoint-failed"


def _find_savepoint_runs(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    last = observed.repository.last_run if observed.repository else None
    if last is None or not last.over or last.savepoint_id is not None:
        return
    age = observed.age(last.began_at)
    yield finding(
        FAILED,
        Severity.WARNING,
        f"the last run that was to take a savepoint, {last.run}, began {span(age)} ago and published none",
        remedies=[command("preflight", observed.name, "--for", "backup"), command("backup", observed.name)],
        numbers={"age_seconds": age},
    )


def _find_survival(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    facts, newest = observed.repository, observed.newest_exact
    if facts is None or newest is None or newest.survives_cluster_loss:
        return
    loss = ClusterLoss(
        what="the newest exact savepoint does",
        lost=facts.lost_with_cluster,
        promised=observed.promised,
        commands=(command("savepoints", "show", observed.name, newest.savepoint_id),),
    )
    yield from found_in_look(CLUSTER_LOSS, loss)


DAMAGED, FORGED = "savepoints-unreadable", "records-forged"


def _find_damaged_savepoints(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    facts = observed.repository
    if facts is None:
        return
    if facts.damaged:
        yield finding(
            DAMAGED,
            Severity.CRITICAL,
            f"these savepoints cannot be read: {_last(facts.damaged)}",
            remedies=[command("verify", observed.name, "--level", "full")],
            numbers={"savepoints": float(len(facts.damaged))},
        )
    yield from found_in_look(AHEAD, FutureRecords(name=observed.name, ids=facts.ahead, keys=()))
    yield from _seals(observed.name, facts)


def _last(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return f"{', '.join(ids[-_NAMED:])}{more}"


def _seals(name: str, facts: RepositoryFacts) -> Iterator[StatusFinding]:
    yield from found_in_look(SEALS, facts.sealed)
    if facts.forged_count:
        named = "; ".join(f"{one.key} ({one.why})" for one in facts.forged[:_NAMED])
        more = f"; and {facts.forged_count - _NAMED} more" if facts.forged_count > _NAMED else ""
        yield finding(
            FORGED,
            Severity.CRITICAL,
            f"{forged_text(facts.forged_count)}: {named}{more}",
            remedies=[command("verify", name), command("seal", name, "--plan")],
            numbers={"records": float(facts.forged_count)},
        )


LEFT = "quiesce-left"


def _find_quiesce(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    facts = observed.repository
    # A run that has the lock brings its instances back itself.
    if facts is None or facts.quiesce is None or facts.lock is not None:
        return
    held = facts.quiesce
    age = observed.age(held.since)
    yield finding(
        LEFT,
        Severity.CRITICAL,
        f"run {held.run} has left {', '.join(held.instances) or 'the application'} in mode {held.mode} for {span(age)} and is gone; the next savepoint "
        "brings them back",
        remedies=[command("backup", observed.name)],
        numbers={"age_seconds": age, "instances": float(len(held.instances))},
    )


GUARD, RESTORED = "guard-left", "restore-hold-left"


def _find_topic_holds(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    facts = observed.repository
    for held in facts.holds if facts else ():
        age = observed.age(held.since)
        if age <= limits.hold_age or (facts and facts.lock and facts.lock.owner.endswith(held.run)):
            continue
        named = first_names(held.topics, _NAMED)
        numbers = {"age_seconds": age, "limit_seconds": limits.hold_age, "topics": float(len(held.topics))}
        if held.of_restore:
            text = f"restore {held.run} keeps retention away from {named} for {span(age)}: what it restored would expire"
            topics = observed.cluster.topics if observed.cluster else ()
            lasting = [topic.name for topic in topics if topic.name in held.topics and not topic.role.internal]
            if lasting:
                # Nothing old goes while it is held, so it does not end by itself.
                text += f". {first_names(lasting, _NAMED)} grows until somebody sets retention.ms there by hand: -1, or as before, and then old records go"
            yield finding(RESTORED, Severity.WARNING if lasting else Severity.INFO, text, subject=held.run, numbers=numbers)
        else:
            text = f"run {held.run} has kept the log cleaner away from {named} for {span(age)} and has not put the settings back: these logs grow"
            yield finding(GUARD, Severity.WARNING, text, subject=held.run, remedies=[command("backup", observed.name)], numbers=numbers)


LONG, UNREADABLE = "lock-held-long", "lock-unreadable"


def _find_locks(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    lock = observed.repository.lock if observed.repository else None
    if lock is None:
        return
    if lock.unreadable:
        remedy = end_record(observed.name, lock.unreadable)
        yield finding(
            UNREADABLE,
            Severity.CRITICAL,
            f"nobody can tell who holds the lock: {lock.unreadable} cannot be read, so no savepoint is taken; {remedy}",
            remedies=remedy.commands,
        )
        return
    age = observed.age(lock.since)
    if age > limits.lock_age:
        remedy = take_lock(observed.name, lock.owner, lock.place)
        yield finding(
            LONG,
            Severity.WARNING,
            f"{lock.owner} holds the lock for {span(age)}, for {lock.purpose}; no savepoint is taken meanwhile. Next: {remedy}",
            subject=lock.owner,
            remedies=remedy.commands,
            numbers={"age_seconds": age, "limit_seconds": limits.lock_age},
        )


UNFINISHED, RESTORE_LATE = "restore-unfinished", "restore-over-deadline"


def _find_restores(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for restore in observed.repository.restores if observed.repository else ():
        if restore.destroyed and not restore.running:
            yield _unfinished(observed, restore)
        elif restore.running:
            yield from _late(observed, restore, limits)


def _unfinished(observed: ObservedApplication, restore: RestoreState) -> StatusFinding:
    age = observed.age(restore.began_at)
    known = f"it came to phase {restore.phase}" if not restore.problem else f"how far it came is not known: {restore.problem}"
    return finding(
        UNFINISHED,
        Severity.CRITICAL,
        f"restore {restore.restore_id} began {span(age)} ago and failed after it had begun to replace topics; {known}. Next: resume it. Only where the "
        "application was brought back in another way, dismiss it: that says that its state is whole, and savepoints are taken of it",
        subject=restore.restore_id,
        remedies=[command("resume", observed.name, restore.restore_id)],
        numbers={"age_seconds": age},
    )


def _late(observed: ObservedApplication, restore: RestoreState, limits: Limits) -> Iterator[StatusFinding]:
    age, deadline = observed.age(restore.began_at), limits.recovery_time or limits.restore_time
    if age > deadline:
        yield finding(
            RESTORE_LATE,
            Severity.CRITICAL,
            f"restore {restore.restore_id} runs for {span(age)} and is in phase {restore.phase}; its deadline was {span(deadline)}",
            subject=restore.restore_id,
            numbers={"age_seconds": age, "deadline_seconds": deadline},
        )


RULES: Final = (
    Rule(kinds=(NONE, OLD, LATE), find=_find_savepoint_age),
    Rule(kinds=(NOT_EXACT,), parts=(PartName.REPOSITORY,), find=_find_savepoint_consistency),
    Rule(kinds=(FAILED,), parts=(PartName.REPOSITORY,), find=_find_savepoint_runs),
    Rule(kinds=CLUSTER_LOSS.kinds(Occasion.LOOK), parts=(PartName.REPOSITORY,), find=_find_survival),
    Rule(
        kinds=(DAMAGED, FORGED, *AHEAD.kinds(Occasion.LOOK), *SEALS.kinds(Occasion.LOOK)),
        parts=(PartName.REPOSITORY,),
        find=_find_damaged_savepoints,
    ),
    Rule(kinds=(LEFT,), parts=(PartName.REPOSITORY,), find=_find_quiesce),
    Rule(kinds=(GUARD, RESTORED), parts=(PartName.REPOSITORY,), find=_find_topic_holds),
    Rule(kinds=(LONG, UNREADABLE), parts=(PartName.REPOSITORY,), find=_find_locks),
    Rule(kinds=(UNFINISHED, RESTORE_LATE), parts=(PartName.REPOSITORY,), find=_find_restores),
)
