"""Later input that a restore in place has set aside, put behind the inputs again: plan, (approve), open, append, finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from streams_recovery.core import codec
from streams_recovery.core.approval import check_approved, hash_of
from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.jobs.spec import JobPlan, PartitionToLoad, RestoreResult
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import created_by
from streams_recovery.core.restore.planned import check_later
from streams_recovery.core.restore.point_in_time import LaterTopic, Quarantine, QuarantineEntry, quarantine_of
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import LATEST, is_id, moment
from streams_recovery.operations import unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import known_topics
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, require_lock
from streams_recovery.operations.restore.in_place import quarantine_log
from streams_recovery.operations.restore.moments import check_still
from streams_recovery.operations.restore.placing import restore_spec
from streams_recovery.operations.restore.values import UnderLock
from streams_recovery.operations.unfinished import journal_of, refuse_if_unfinished

_PLAN, _SPEC, _RESULT = "append-plan", "append-spec", "append-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """The records that would be appended: those of ``topics``, so many ``rows`` by partition, behind ``ends``. A failed attempt has left ``present`` of them
    there.
    """

    application_id: str
    restore_id: str
    savepoint_id: str
    moment: int
    topics: tuple[LaterTopic, ...]
    rows: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    present: dict[TopicPartition, int]

    @property
    def hash(self) -> str:
        """Identifies what is done, whatever of it has been done already."""
        return hash_of({key: value for key, value in codec.encode(self).items() if key != "present"})

    @property
    def parts(self) -> dict[str, object]:
        return {
            "the application": self.application_id,
            "the restore that set the input aside": [self.restore_id, self.moment],
            "the records": [self.savepoint_id, [codec.encode(topic) for topic in self.topics], codec.encode(self.rows)],
            "the end of the inputs": codec.encode(self.ends),
        }

    @property
    def text(self) -> Markdown:
        """The plan for people."""
        restore, savepoint, own = code(self.restore_id), code(self.savepoint_id), code(self.hash[:12])
        return joined(
            [
                md("### Append later input of {} again", code(self.application_id)),
                md(""),
                md("Restore {} set aside what was later than **{}**. Plan {}.", restore, moment(self.moment), own),
                md(""),
                md("**{:,} records** of savepoint {} are put behind what is in the inputs now.", sum(self.rows.values()), savepoint),
                md(
                    "They keep the order they had in their partition, and keys, values, headers and timestamps. Everybody who reads these inputs gets them."
                ),
                md(""),
                md("| partition | records | behind offset | there already |"),
                md("|---|---:|---:|---:|"),
                *(md("| {} | {:,} | {} | {:,} |", tp, rows, self.ends[tp], self.present[tp]) for tp, rows in sorted(self.rows.items())),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTicket(UnderLock):
    """An append under way."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport:
    """The records that are behind the inputs now. ``present`` of the ``rows`` were there from an earlier attempt and equal."""

    restore_id: str
    rows: int
    present: int
    partitions: int


def plan_append(recovery: RecoveryContext, restore_id: str) -> AppendPlan:
    """Plan to append the later input of a restore, or of the last one (``latest``). Changes nothing.

    Raises ``NotFound`` for a restore that set nothing aside; ``Refused`` when it is appended already, when a restore is half way, when the inputs are others by
    now, and when a producer writes to them: two writers would mix, and what came twice could not be told.
    """
    refuse_if_unfinished(recovery)
    found = _quarantine(recovery, restore_id)
    if found.appended_at is not None:
        raise Refused(
            f"the later input of restore {found.restore_id} was appended {moment(found.appended_at)}",
            next_step="nothing is left to do",
            restore=found.restore_id,
            appended_at=found.appended_at,
        )
    rows = {TopicPartition(topic.name, part.partition): part.rows for topic in found.topics for part in topic.partitions}
    check_later(found.topics, application_id=recovery.application_id, where=recovery.layout.quarantine(found.restore_id))
    _check_topics(recovery, found)
    check_still(recovery, list(rows), float(recovery.config.restore.producers_still_seconds))
    now = recovery.cluster.high_watermarks(list(rows))
    ends = now if found.begun is None else _begun(recovery, found, found.begun)
    present = {tp: now[tp] - ends[tp] for tp in rows}
    _check_present(rows, present)
    return AppendPlan(
        application_id=recovery.application_id,
        restore_id=found.restore_id,
        savepoint_id=found.savepoint_id,
        moment=found.moment,
        topics=found.topics,
        rows=rows,
        ends=ends,
        present=present,
    )


def _begun(recovery: RecoveryContext, found: Quarantine, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    wanted = {TopicPartition(topic.name, part.partition) for topic in found.topics for part in topic.partitions}
    if set(ends) != wanted:
        where = recovery.layout.quarantine(found.restore_id)
        raise Damaged(
            f"{where} says that an append began behind {sorted(map(str, ends))[:10]}, and {sorted(map(str, wanted))[:10]} were set aside",
            next_step="nothing was changed; find out who wrote there",
            where=where,
        )
    return ends


def _quarantine(recovery: RecoveryContext, restore_id: str) -> Quarantine:
    if restore_id == LATEST:
        prefix = recovery.layout.quarantines
        known = sorted(filter(is_id, {key.removeprefix(prefix).split("/")[0] for key in recovery.repository.keys(prefix)}))
        if not known:
            raise NotFound(
                f"no restore of {recovery.application_id} has set input aside",
                next_step="nothing is left to do",
                application_id=recovery.application_id,
            )
        restore_id = known[-1]
    return quarantine_of(restore_id, tuple(quarantine_log(recovery, restore_id).read_all()))


def _check_topics(recovery: RecoveryContext, found: Quarantine) -> None:
    names = {topic.name for topic in found.topics}
    inputs = {name for name in known_topics(recovery, names) if recovery.config.internal_role(name) is None}
    if foreign := sorted(names - inputs.difference(recovery.config.topics.outputs)):
        raise Refused(
            f"{recovery.layout.quarantine(found.restore_id)} names topics that are no inputs of {recovery.application_id}: {', '.join(foreign[:5])}",
            next_step="nothing was changed; find out who wrote there, or declare the topics under `topics.inputs` if they are",
            restore=found.restore_id,
            topics=foreign,
        )
    created = created_by(tuple(journal_of(recovery, found.restore_id).read_all()))
    there = recovery.cluster.describe_topics([topic.name for topic in found.topics])
    others = sorted(
        topic.name for topic in found.topics if topic.name not in there or there[topic.name].topic_id not in created.get(topic.name, ())
    )
    if others:
        raise Refused(
            f"inputs are gone, or are not those that restore {found.restore_id} made: {', '.join(others)}",
            next_step="nothing was changed; the records are in the savepoint all the same, where any reader of Parquet finds them",
            restore=found.restore_id,
            topics=others,
        )


def _check_present(rows: Mapping[TopicPartition, int], present: Mapping[TopicPartition, int]) -> None:
    cut_back = [str(tp) for tp, count in present.items() if count < 0]
    if cut_back:
        raise Refused(
            f"{', '.join(cut_back)} ends before the offset at which the append began: the log was cut back since",
            next_step="nothing was changed; find out which records were lost there, and append what was set aside by hand from the savepoint's files",
            topics=cut_back,
        )
    wrong = [str(tp) for tp, count in present.items() if count > rows[tp]]
    if wrong:
        raise Refused(
            f"another producer has written to {', '.join(wrong)} since the append that failed",
            next_step="nothing was changed; what is there cannot be told from what is missing: compare and append the rest by hand",
            topics=wrong,
        )


def open_append(recovery: RecoveryContext, restore_id: str, *, run_id: str, requested_by: str, approved_hash: str) -> AppendTicket:
    """Take the lock, plan again under it, and write down where the append begins. Raises ``PlanChanged`` and ``LockHeld``."""
    lock = recovery.lock.acquire(
        f"append {run_id}", lease_seconds=LEASE_SECONDS, purpose=f"append of later input of {recovery.application_id}"
    )
    try:
        planned = plan_append(recovery, restore_id)
        check_approved(planned, approved_hash)
        # Only the first attempt writes it: a later one counts from there what is present, and would else append it twice.
        if not any(entry.kind == "begins" for entry in quarantine_log(recovery, planned.restore_id).read_all()):
            _note(recovery, planned.restore_id, "begins", run_id, ends=planned.ends)
        stored = recovery.artifacts.write(_run(planned.restore_id), _PLAN, planned)
    except BaseException:
        recovery.lock.release(lock)
        raise
    return AppendTicket(
        application_id=recovery.application_id,
        restore_id=planned.restore_id,
        run_id=run_id,
        requested_by=requested_by,
        plan=stored,
        lock=lock,
    )


def _run(restore_id: str) -> str:
    return f"{restore_id}-append"


def _note(
    recovery: RecoveryContext,
    restore_id: str,
    kind: Literal["begins", "appended"],
    run: str,
    *,
    ends: dict[TopicPartition, int] | None = None,
) -> None:
    log = quarantine_log(recovery, restore_id)
    found = quarantine_of(restore_id, tuple(log.read_all()))
    log.append(QuarantineEntry(kind=kind, at=recovery.clock(), run=run, savepoint_id=found.savepoint_id, moment=found.moment, ends=ends))


def plan_append_job(recovery: RecoveryContext, ticket: AppendTicket) -> JobPlan:
    """The Spark job: one writer a partition, behind the present records; records of a failed attempt are compared first."""
    require_lock(recovery, ticket)
    work = _work(recovery, recovery.artifacts.read(AppendPlan, ticket.plan))
    # What is in front of them is not the archive's, and what comes behind them may be anybody's.
    spec = recovery.artifacts.write(_run(ticket.restore_id), _SPEC, restore_spec(recovery, ticket, work, read_back=False))
    return JobPlan(
        spec=spec,
        result_key=recovery.artifacts.answer(spec.key, _RESULT),
        ranges=len(work),
        offsets=sum(part.rows - part.present for part in work),
        volume=JobVolume.of((part.rows, part.payload_bytes) for part in work),
    )


def _work(recovery: RecoveryContext, planned: AppendPlan) -> tuple[PartitionToLoad, ...]:
    begun, ids = planned.ends, recovery.cluster.describe_topics([topic.name for topic in planned.topics])
    parts = {TopicPartition(topic.name, part.partition): part for topic in planned.topics for part in topic.partitions}
    now = recovery.cluster.high_watermarks(list(parts))
    return tuple(
        PartitionToLoad(
            tp=tp,
            first_offset=begun[tp],
            files=part.files,
            present=now[tp] - begun[tp],
            topic_id=ids[tp.topic].topic_id,
            cut=part.cut,
        )
        for tp, part in parts.items()
    )


def finish_append(recovery: RecoveryContext, ticket: AppendTicket, result: ArtifactRef | None) -> AppendReport:
    """Compare the written records with those that were set aside and with the logs' ends, and end the mark that the restore set on the savepoint. Gives the
    lock back.
    """
    require_lock(recovery, ticket)
    if result is None:
        raise Damaged("no append ran", next_step="run the append again")
    planned = recovery.artifacts.read(AppendPlan, ticket.plan)
    loaded = {one.tp: one for one in recovery.artifacts.read_own(RestoreResult, _run(ticket.restore_id), result).partitions}
    rows = planned.rows
    now = recovery.cluster.high_watermarks(list(rows))
    wrong = [str(tp) for tp, count in rows.items() if tp not in loaded or loaded[tp].rows != count or now[tp] - planned.ends[tp] < count]
    if wrong:
        raise Damaged(f"not all later records were appended to {', '.join(wrong)}", next_step="run the append again", topics=wrong)
    _note(recovery, planned.restore_id, "appended", ticket.run_id)
    # Unpinned last: as long as the append is not on record, its records must not expire.
    unfinished.pin(
        recovery,
        planned.savepoint_id,
        keep=False,
        requested_by=ticket.requested_by,
        reason=f"the later input of restore {planned.restore_id} is appended again",
        restore_id=planned.restore_id,
    )
    recovery.lock.release(ticket.lock)
    present = sum(one.present for one in loaded.values())
    return AppendReport(restore_id=planned.restore_id, rows=sum(rows.values()), present=present, partitions=len(rows))


def leave_append(recovery: RecoveryContext, ticket: AppendTicket) -> None:
    """Give the lock back after any failure. Written records stay, and the next attempt goes on behind them."""
    recovery.lock.release(ticket.lock)
