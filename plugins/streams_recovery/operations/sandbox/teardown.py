"""Taking away everything of a drill's application: processes, topics, group, local state, holds. Repeating it is harmless.

Only topics that are the drill's by their names are ever deleted (``own_names``). Journals are data: they say which of those a drill has created, and can make
the list shorter, never longer. The history of drills is in the application's own part of the repository.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import ConfigInvalid, Damaged, TargetNotEmpty
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.names import internal_role
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase, Removable, created_by, reached, removable
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.parts.rescale import RescalePart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.sandbox.drill import DrillEntry, DrillRestore, drill_entry
from streams_recovery.core.words import in_order
from streams_recovery.operations import quiesce_record, topic_holds
from streams_recovery.operations.bring_down import bring_down
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import internal_topics, own_names
from streams_recovery.operations.renewed_lock import held_lock
from streams_recovery.operations.restore import RestoreReport, RestoreTicket
from streams_recovery.operations.restore.load import load_progress, rows_at_first
from streams_recovery.operations.restore.strategies import Rescale
from streams_recovery.operations.sites import SandboxSites, sandbox_site
from streams_recovery.operations.unfinished import journal_of, plan_of, restores_of
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.run_artifacts import RunArtifacts

LOGGER = logger("streams_recovery.operations.sandbox")
DRILL = "drill"
_NEWEST = 3
_NAMED = 5
# Runs do not overlap, so the entry of one whose last step is repeated is among the newest.
_NEWEST_DRILLS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """The things that were taken away: topics, directories, and the instances that had to be stopped."""

    topics: tuple[str, ...]
    directories: tuple[str, ...]
    stopped: tuple[str, ...]


def clear(recovery: RecoveryContext, *, run_id: str, what: str = DRILL) -> Removed:
    """Before a drill: take away what one that died has left. Raises ``TargetNotEmpty`` when something of the names that a drill would use is there
    and no drill has created it, and ``LockHeld`` while another drill runs; nothing was changed then. ``what`` says what it is, if it is no drill.
    """
    with held_lock(recovery, f"{what} {run_id}", purpose=f"clearing up for {what} as {recovery.application_id}"):
        _refuse_strange(recovery, _journals(recovery), what)
        _tell_of_elsewhere(recovery, what)
        if isinstance(recovery.sites, SandboxSites):
            recovery.sites.begin(recovery.site, cluster_id=recovery.cluster.cluster_id(), run=run_id)
        return _take_away(recovery, what, ours=())


def _tell_of_elsewhere(recovery: RecoveryContext, what: str) -> None:
    """Log a sandbox that died at another site and left its topics there. That cluster may be lost, so it is not asked. The next sandbox there removes them."""
    before = recovery.sites.entry()
    if before is None or before.site == recovery.site:
        return
    for restore_id, log in _journals(recovery).items():
        entries = tuple(log.read_all())
        if entries and reached(entries) is not Phase.CLOSED:
            LOGGER.warning(
                "%s of %s was not removed at the site %s, and is not looked for there: %s; the next %s at that site takes it away",
                restore_id,
                recovery.application_id,
                before.site,
                ", ".join([*created_by(entries)][:_NAMED]) or "no topic",
                what,
            )


def _refuse_strange(recovery: RecoveryContext, journals: Mapping[str, AppendLog[JournalEntry]], what: str) -> None:
    own = own_names(recovery)
    existing = recovery.cluster.describe_topics(own)
    made = _removable(recovery, journals, own, own).go
    strange = [f"topic {name}" for name in sorted(set(existing) - set(made))]
    sites = recovery.sites
    known = bool(journals) and (not isinstance(sites, SandboxSites) or sites.has_been_at(recovery.site))
    if not known and recovery.application_id in recovery.cluster.groups():
        strange.append(f"consumer group {recovery.application_id}")
    if strange:
        raise TargetNotEmpty(
            f"{what} as {recovery.application_id} would use what is there, and did not create it: {', '.join(strange)}",
            next_step=f"nothing was changed; delete it if it is not needed, or give the {what} other names",
            found=strange,
        )


def remove(recovery: RecoveryContext, ticket: RestoreTicket, *, keep: Collection[str] = (), what: str = DRILL) -> Removed:
    """After a drill, however it ended: stop its application and take away all that is there of it, its topics by name and id, but for those to ``keep``.

    Internal topics that the application created itself are among them: none was there when the drill began. Raises ``ApplicationRunning`` when
    an instance does not stop, ``Damaged`` when something is left all the same.
    """
    # A job of the drill that still runs finds its lock lost, and ends.
    held = recovery.lock.holder()
    if held is not None and held.owner == ticket.lock.owner:
        recovery.lock.take_from(held.owner)
    with held_lock(recovery, f"removal of {ticket.restore_id}", purpose=f"removal of what {ticket.restore_id} made"):
        return _take_away(recovery, what, ours=internal_topics(recovery), keep=keep)


def _take_away(recovery: RecoveryContext, what: str, *, ours: Iterable[str], keep: Collection[str] = ()) -> Removed:
    stopped = _stop(recovery)
    journals = _journals(recovery)
    own = own_names(recovery)
    for restore_id, log in journals.items():
        _await_writers(recovery, restore_id, log, own)
    if journals:
        _adopt(recovery, journals[max(journals)], ours)
    topics, kept_back = _delete_topics(recovery, journals, own, keep)
    recovery.groups.delete(recovery.application_id)
    wiped = recovery.application.wipe_state()
    topic_holds.release(recovery, topic_holds.outstanding(recovery))
    quiesce_record.end(recovery)
    for log in journals.values():
        last = log.last()
        if last is not None and last.phase is not Phase.CLOSED:
            # Whatever phase it failed in: what is removed cannot be resumed, and its artifacts need not be kept for that.
            log.append(JournalEntry(phase=Phase.CLOSED, at=recovery.clock(), created=()))
    _prove(recovery, what, (*topics, *kept_back), wiped.remaining)
    return Removed(topics=tuple(topics), directories=wiped.removed, stopped=stopped)


def _stop(recovery: RecoveryContext) -> tuple[str, ...]:
    alive = tuple(i.name for i in not_gone(recovery))
    bring_down(recovery)
    return alive


def _await_writers(recovery: RecoveryContext, restore_id: str, log: AppendLog[JournalEntry], own: Collection[str]) -> None:
    """Wait for the job of an interrupted load: it may still be ending, and a topic that is deleted under it would be created again."""
    if reached(tuple(log.read_all())) in (Phase.CREATED, Phase.RECOVERED):
        rows = rows_at_first(plan_of(recovery, restore_id))
        load_progress(recovery, {tp: count for tp, count in rows.items() if tp.topic in own})


def _adopt(recovery: RecoveryContext, log: AppendLog[JournalEntry], names: Iterable[str]) -> None:
    """Write down topics that the application created itself, so that a run that goes on knows that they are its own."""
    written = tuple(log.read_all())
    known = created_by(written)
    found = recovery.cluster.describe_topics(list(names))
    new = tuple(CreatedTopic(topic=name, topic_id=one.topic_id) for name, one in found.items() if one.topic_id not in known.get(name, ()))
    if new:
        log.append(JournalEntry(phase=reached(written), at=recovery.clock(), created=new))


def _delete_topics(
    recovery: RecoveryContext, journals: Mapping[str, AppendLog[JournalEntry]], own: Collection[str], keep: Collection[str]
) -> tuple[list[str], list[str]]:
    """The topics that are deleted, and those that look like the drill's own but may be those of a consumer group with a longer name."""
    named = {name for log in journals.values() for name in created_by(tuple(log.read_all()))}
    # A name from the repository is not asked for before the cluster has shown it.
    found = _removable(recovery, journals, own, named.intersection(recovery.cluster.topic_names()))
    if found.strange:
        LOGGER.warning(
            "recorded as created by %s, and left as they are because these are no names of its topics: %r",
            recovery.application_id,
            found.strange[:_NAMED],
        )
    ours = {name: topic_id for name, topic_id in found.go.items() if name not in keep}
    recovery.cluster.delete_exactly(ours)
    return list(ours), [name for name in found.strange if internal_role(name, recovery.application_id) is not None]


def _removable(
    recovery: RecoveryContext, journals: Mapping[str, AppendLog[JournalEntry]], own: Collection[str], names: Iterable[str]
) -> Removable:
    existing = recovery.cluster.describe_topics(list(names))
    written = (tuple(log.read_all()) for log in journals.values())
    return removable(written, own, {name: found.topic_id for name, found in existing.items()})


def _prove(recovery: RecoveryContext, what: str, topics: Iterable[str], directories: Iterable[str]) -> None:
    left = [
        *(f"directory {path}" for path in directories),
        *(f"topic {name}" for name in sorted({*topics} & {*recovery.cluster.topic_names()})),
        *(f"group {group}" for group in recovery.cluster.groups() if group == recovery.application_id),
    ]
    if left:
        raise Damaged(
            f"of the {what} {recovery.application_id} something is left: {', '.join(left)}",
            next_step="run this step again; the next run tries it again too",
            left=left,
        )


def _journals(recovery: RecoveryContext) -> dict[str, AppendLog[JournalEntry]]:
    """The journals of the newest drills. A drill begins only once nothing of those before it is left, so the last one would do."""
    newest = in_order(restores_of(recovery), recovery.clock())[-_NEWEST:]
    return {restore_id: journal_of(recovery, restore_id) for restore_id in newest}


def drills(recovery: RecoveryContext) -> list[DrillEntry]:
    """Every drill of this application, oldest first."""
    return _log(recovery).read_all()


def conclude(
    recovery: RecoveryContext,
    *,
    run_id: str,
    requested_by: str,
    began_at: int,
    ticket: RestoreTicket | None,
    report: RestoreReport | None,
    left: tuple[str, ...],
) -> DrillEntry:
    """Add the drill to the history, however it ended, and return its entry. ``recovery`` is that of the application itself; ``ticket`` is None when no
    restore was begun, ``report`` when it was not finished. Repeating it adds nothing.
    """
    log = _log(recovery)
    restored = None if ticket is None else _restored(recovery, ticket, report)
    entry = drill_entry(
        run=run_id,
        requested_by=requested_by,
        began_at=began_at,
        restored=restored,
        left=left,
        site=_site(recovery, run_id),
        partitions=_partitions(recovery, ticket),
    )
    # What is written there already is data: it counts only where it says what is found here.
    known = next((one for one in itertools.islice(log.read_back(), _NEWEST_DRILLS) if _same(one, entry)), None)
    if known is not None:
        return known
    log.append(entry)
    return entry


def _same(one: DrillEntry, other: DrillEntry) -> bool:
    about = [(entry.run, entry.restore_id, entry.savepoint_id, entry.plan_hash, entry.site, entry.outcome) for entry in (one, other)]
    return about[0] == about[1]


def raise_unless_succeeded(entry: DrillEntry) -> None:
    """Raise ``Damaged``: an application whose drill fails has no way back that can be counted on."""
    if not entry.succeeded:
        left = f"; left: {', '.join(entry.left)}" if entry.left else ""
        raise Damaged(
            f"the drill of {entry.savepoint_id or 'no savepoint'} {entry.outcome}{left}",
            next_step="see the first task of this run that failed; the application itself was not changed",
            run=entry.run,
        )


def _restored(recovery: RecoveryContext, ticket: RestoreTicket, report: RestoreReport | None) -> DrillRestore:
    layout = _scratch(recovery)
    journal = AppendLog(recovery.repository, layout.journal(ticket.restore_id), JournalEntry).read_all()
    planned = RunArtifacts(recovery.repository, layout).read(RestorePlan, ticket.plan)
    return DrillRestore(
        restore_id=ticket.restore_id,
        plan_hash=ticket.plan_hash,
        planned=planned,
        report=report,
        journal=tuple(journal),
        input_upto=_input_upto(planned),
    )


def _partitions(recovery: RecoveryContext, ticket: RestoreTicket | None) -> str:
    if ticket is None:
        return "" if recovery.config.drill is None else recovery.config.drill.numbers
    return ticket.request.partitions if isinstance(ticket.request, Rescale) else ""


def _input_upto(planned: RestorePlan) -> int | None:
    # A rescale copies inputs for their number, and nothing of the archive.
    if isinstance(planned.part, RescalePart) or not any(step.role is TopicRole.INPUT for step in planned.create):
        return None
    return planned.captured_at if planned.part.archived is None else planned.part.archived.safe_at


def _site(recovery: RecoveryContext, run_id: str) -> str:
    """The site at which the run began, or was to begin."""
    drill = recovery.config.drill
    if drill is None or not recovery.config.sites:
        return PRIMARY
    return sandbox_site(recovery.repository, drill.application_id, run_id) or drill.site or recovery.site


def _scratch(recovery: RecoveryContext) -> Layout:
    if recovery.config.drill is None:
        raise ConfigInvalid(f"no drill is configured for {recovery.config.name}", next_step="write a drill section")
    return Layout(recovery.config.drill.application_id)


def _log(recovery: RecoveryContext) -> AppendLog[DrillEntry]:
    return AppendLog(recovery.repository, recovery.layout.drills, DrillEntry)
