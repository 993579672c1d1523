"""Restores to a moment on a real broker: which savepoint they begin from, which records they take, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import ApplicationNotReady, PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.topic_holds.compaction_guard import RESTORE_MARK, marked
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.operations.restore.open import note
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import publish, take
from tests.support.applications.second_application import second_application
from tests.support.applications.small import Small, asked, configured, configured_for
from tests.support.applications.timed_inputs import FIRST, SECOND, ZERO, fresh, stamped
from tests.support.applications.topic_records import aborted, commit, delete_below, produce
from tests.support.kafka.topic_settings import alter


@dataclass(frozen=True)
class Past:
    """An application with two savepoints: one that had read two records of four, one that had read all but one of eight."""

    small: Small
    other: RecoveryContext
    early: str
    late: str

    @property
    def copy(self) -> TopicPartition:
        return TopicPartition(f"{self.small.input.topic}.past", 0)

    @property
    def tail(self) -> TopicPartition:
        return TopicPartition(f"{self.other.application_id}-by-key-repartition", 0)

    def request(self, at: int, by: CutBy = CutBy.TIMESTAMP, **changes: object) -> restore.RestoreRequest:
        source = self.small.recovery.application_id
        return asked(self.other, **{"source": source, "as_of": AsOf(moment=ZERO + at, by=by), **changes})

    def plan(self, at: int, by: CutBy = CutBy.TIMESTAMP, **changes: object) -> restore.RestorePlan:
        return restore.plan(self.other, self.request(at, by, **changes))

    def taken(self, planned: restore.RestorePlan) -> tuple[str, int, int]:
        """The base, how many input records are taken, and where the application goes on in them."""
        [rows] = [topic.rows for topic in planned.create if topic.name == self.copy.topic]
        [offset] = [item.wanted.offset for item in planned.offsets if item.tp.topic == self.copy.topic]
        return {self.early: "early", self.late: "late"}.get(planned.savepoint_id, planned.savepoint_id), rows, offset


@pytest.fixture
def past(small: Small) -> Iterator[Past]:
    small = replace(small, recovery=configured_for(small, topics={"include": [small.input.topic]}))
    recovery = small.recovery
    fresh(recovery, small.input)
    stamped(recovery, small.input, FIRST)
    recovery.groups.set_offsets(recovery.application_id, {small.input: CommittedOffset(offset=2, metadata="AgAA", leader_epoch=None)})
    early = publish(small)
    stamped(recovery, small.input, SECOND)
    produce(recovery, small.changelog, 1)
    commit(recovery, {small.input: 7})
    late = publish(small)
    with second_application(small) as other:
        yield Past(small, other, early, late)


# Moment, what decides, and then the base, the records that are taken, and where the application goes on in them.
CASES = [
    (20, CutBy.TIMESTAMP, ("early", 3, 2)),  # equal timestamps belong to it
    (29, CutBy.TIMESTAMP, ("early", 3, 2)),
    (30, CutBy.TIMESTAMP, ("early", 4, 2)),  # a late one behind the 50
    (40, CutBy.TIMESTAMP, ("early", 6, 2)),
    (40, CutBy.POSITION, ("early", 3, 2)),
    (50, CutBy.TIMESTAMP, ("late", 7, 7)),
    (50, CutBy.POSITION, ("late", 7, 7)),
    (59, CutBy.TIMESTAMP, ("late", 7, 7)),
    (10**6, CutBy.TIMESTAMP, ("late", 8, 7)),  # after the last
]


@pytest.mark.fault("F55")
def test_the_newest_savepoint_that_had_read_nothing_later_and_the_input_up_to_there(past: Past) -> None:
    for at, by, taken in CASES:
        planned = past.plan(at, by)
        assert past.taken(planned) == taken, (at, by)
        assert (planned.part.archive, planned.part.with_state) == (past.late, True)
        assert planned.observed.records_to_catch_up == taken[1] - taken[2]
        assert any("all of it is taken" in warning for warning in planned.warnings) == (at == 10**6)


@pytest.mark.deep
@pytest.mark.fault("F55")
def test_a_record_ten_years_ahead_ends_neither_the_moments_behind_it_nor_a_cut(past: Past) -> None:
    small, now, hour = past.small, wall_clock() - ZERO, 3_600_000
    recovery, log = small.recovery, small.input
    alter(recovery.cluster, {log.topic: {"message.timestamp.after.max.ms": str(2**62)}})
    end = recovery.cluster.high_watermarks([log])[log]

    def saved_at(at: int, stamps: list[int]) -> str:
        stamped(recovery, log, stamps)
        commit(recovery, {log: recovery.cluster.high_watermarks([log])[log]})
        return take(small, recovery=replace(recovery, clock=lambda: ZERO + at)).savepoint_id

    base = saved_at(now + hour, [now + 10 * 365 * 24 * hour, now])
    saved_at(now + 5 * hour, [now + 2 * hour, now + 4 * hour, now + 2 * hour + 1])
    other = replace(past.other, clock=lambda: ZERO + now + 6 * hour)
    for by, rows, left in ((CutBy.TIMESTAMP, end + 4, 0), (CutBy.POSITION, end + 3, 1)):
        planned = restore.plan(other, past.request(now + 3 * hour, by))
        assert past.taken(planned) == (base, rows, end + 2)
        [cut] = [part.cut for topic in planned.create if topic.name == past.copy.topic for part in topic.partitions]
        assert cut is not None
        assert (cut.first_later, cut.written, cut.ahead, cut.behind) == (end + 3, end + 2, 1, left)
        said = " ".join(planned.warnings)
        assert (
            f"1 records are dated later than the moment, but savepoints of before it show that they had been written: they are taken. They are in {log} (1)"
            in said
        )
        assert ("by position, 1 records of the moment or earlier come after the first later record" in said) == bool(left)
    taken_ahead = replace(past.other, clock=lambda: ZERO + now + 2 * hour)
    with pytest.raises(Refused, match="is archived up to"):
        restore.plan(taken_ahead, past.request(now + int(1.5 * hour)))


@pytest.mark.deep
def test_outputs_begin_empty_also_when_their_records_are_archived(past: Past) -> None:
    recovery = configured_for(past.small, topics={"include": [past.small.input.topic, past.small.output.topic]})
    newest = recovery.savepoints.read(take(past.small, recovery=recovery).savepoint_id)
    assert newest.topic(past.small.output.topic).rows > 0
    for savepoint in (newest.savepoint_id, "none"):
        planned = past.plan(10**6, savepoint=savepoint)
        [output] = [topic for topic in planned.create if topic.role is TopicRole.OUTPUT]
        assert (output.name, output.rows, past.taken(planned)[1]) == (f"{past.other.application_id}.out", 0, 8)


@pytest.mark.fault("F55")
def test_what_cannot_be_brought_to_a_moment_is_refused_with_the_reason(past: Past) -> None:
    own, log = past.small.recovery, str(past.small.input)
    with pytest.raises(Refused, match="no archived input") as refused:
        past.plan(9, savepoint="none")
    assert refused.value.facts == {"application_id": own.application_id, "moment": ZERO + 9}
    with pytest.raises(Refused) as refused:
        past.plan(10)
    assert {"partition": log, "read": 2, "first_later": 1, "archived_from": 0, "savepoint": past.early} in refused.value.facts["unfit"]
    assert "savepoint none" in refused.value.next_step
    with pytest.raises(Refused) as refused:
        past.plan(40, savepoint=past.late)
    assert refused.value.facts["unfit"] == [{"partition": log, "read": 7, "first_later": 3, "archived_from": 0, "savepoint": past.late}]
    with pytest.raises(Refused, match="is not over yet"):
        past.plan(past.other.clock() - ZERO + 60_000)
    with pytest.raises(Refused, match="in place") as refused:
        restore.plan(own, past.request(40, source="", confirm=own.application_id))
    assert refused.value.facts == {"application_id": own.application_id}
    assert "configure a second application" in refused.value.next_step
    at = past.other.clock()
    with pytest.raises(Refused) as refused:
        past.plan(at - ZERO)
    newest = own.savepoints.read(past.late).captured_at
    assert refused.value.facts == {"application_id": own.application_id, "archived_to": newest, "moment": at}
    assert refused.value.next_step == "take a savepoint first"


@pytest.mark.deep
def test_inputs_that_are_not_archived_or_not_mapped_are_refused(past: Past) -> None:
    recovery = past.small.recovery
    shared = replace(
        past.other,
        config=configured(
            past.other,
            topics={"inputs": [past.small.input.topic]},
            restore={"topic_map": {past.small.output.topic: f"{past.other.application_id}.out"}},
        ),
    )
    with pytest.raises(Refused, match="behind the moment") as refused:
        restore.plan(shared, past.request(40))
    assert refused.value.facts == {"topics": [past.small.input.topic]}
    for savepoint in recovery.savepoints.ids():
        recovery.repository.delete([recovery.savepoints.key(savepoint)])
    plain = configured_for(past.small, topics={"include": []})
    take(past.small, recovery=plain)
    with pytest.raises(Refused) as refused:
        past.plan(40)
    assert refused.value.facts == {"application_id": recovery.application_id, "archived_to": None}


@pytest.mark.deep
def test_a_savepoint_that_is_not_whole_or_not_the_published_one_is_passed_over(past: Past) -> None:
    recovery = past.small.recovery
    file = next(file for tp, file in reversed(list(recovery.savepoints.read(past.late).files())) if tp == past.small.changelog)
    content = recovery.repository.get(file.key)
    recovery.repository.delete([file.key])
    assert past.taken(past.plan(50)) == ("early", 7, 2)
    with pytest.raises(Refused) as refused:
        past.plan(50, savepoint=past.late)
    [unfit] = refused.value.facts["unfit"]
    assert (unfit["savepoint"], unfit["sizes"]) == (past.late, {file.key: None})
    recovery.repository.create(file.key, content)
    assert past.taken(past.plan(50))[0] == "late"
    manifest = Path(recovery.repository.location.path or "") / recovery.savepoints.key(past.late)
    manifest.write_bytes((Path(recovery.repository.location.path or "") / recovery.savepoints.key(past.early)).read_bytes())
    planned = past.plan(50)
    assert past.taken(planned) == ("early", 4, 2)
    assert any("could not be read" in warning and past.late in warning for warning in planned.warnings)


@pytest.mark.deep
def test_an_archive_lasts_as_long_as_its_savepoints_also_when_the_input_was_created_again(past: Past) -> None:
    recovery = past.small.recovery
    fresh(recovery, past.small.input)
    stamped(recovery, past.small.input, [80])
    commit(recovery, {past.small.input: 1})
    newest = publish(past.small)
    planned = past.plan(40)
    assert past.taken(planned) == ("early", 6, 2)
    assert planned.part.archive == past.late
    assert past.taken(past.plan(80)) == (newest, 1, 1)


@pytest.mark.deep
@pytest.mark.parametrize("label", [Consistency.AHEAD, Consistency.EDITED])
def test_a_savepoint_that_is_not_exact_is_a_base_only_when_it_was_named(past: Past, label: Consistency) -> None:
    recovery = past.small.recovery
    manifest = recovery.savepoints.read(past.late)
    recovery.repository.delete([recovery.savepoints.key(past.late), recovery.layout.published(past.late)])
    recovery.savepoints.publish(replace(manifest, consistency=label))
    assert past.taken(past.plan(50))[0] == "early"
    assert past.taken(past.plan(50, allow_ahead=True))[0] == "early", "allowed, and still not chosen"
    assert past.taken(past.plan(50, savepoint=past.late, allow_ahead=True))[0] == "late"
    if label is Consistency.AHEAD:
        with pytest.raises(Refused) as refused:
            past.plan(50, savepoint=past.late)
        assert refused.value.facts["unfit"] == [{"consistency": "ahead", "savepoint": past.late}]


@pytest.mark.deep
def test_what_was_read_before_it_was_archived_counts_only_for_a_savepoint_of_before(past: Past) -> None:
    recovery = past.small.recovery
    for savepoint in recovery.savepoints.ids():
        recovery.repository.delete([recovery.savepoints.key(savepoint)])
    delete_below(recovery, past.small.input, 3)
    newest = publish(past.small)
    captured = recovery.savepoints.read(newest).captured_at - ZERO
    with pytest.raises(Refused, match="not all that") as refused:
        past.plan(10**6)
    [unfit] = refused.value.facts["unfit"]
    assert (unfit["partition"], unfit["first_later"], unfit["archived_from"]) == (str(past.small.input), None, 3)
    with pytest.raises(Refused) as refused:
        past.plan(50, savepoint="none")
    assert refused.value.facts == {"missing": [f"{past.small.input} begins at 3"]}
    assert past.taken(past.plan(captured)) == (newest, 5, 4)


@pytest.mark.way("restore to a moment")
def test_the_copy_has_the_records_of_the_moment_and_the_old_application_is_not_touched(past: Past) -> None:
    recovery, other = past.small.recovery, past.other
    before = recovery.cluster.high_watermarks([past.small.input, past.small.output])
    ticket = opened(other, past.request(40))
    assert saved(other, ticket).savepoint_id is None
    loaded(other, ticket)
    assert copied(past) == [10, 20, 20, 30, 40, 40]
    config = other.cluster.describe_topics([past.copy.topic])[past.copy.topic].config
    assert marked(config, RESTORE_MARK)
    assert recovery.cluster.high_watermarks([past.small.input, past.small.output]) == before
    assert recovery.groups.committed(recovery.application_id, [past.small.input])[past.small.input] is not None
    restore.abandon(other, ticket)

    # Another moment, into the copies of the first one: they are this application's own, and go when it is said.
    with pytest.raises(TargetNotEmpty, match=rf"{past.copy.topic} \(6 offsets\)"):
        past.plan(20)
    again = opened(other, past.request(20, by=CutBy.POSITION, replace=True))
    assert {topic.name: bool(topic.replaces) for topic in restore.stored_plan(other, again).create}[past.copy.topic]
    saved(other, again)
    loaded(other, again)
    assert copied(past) == [10, 20, 20]
    restore.abandon(other, again)


def copied(past: Past) -> list[int]:
    end = past.other.cluster.high_watermarks([past.copy])[past.copy]
    with RangeReader(past.other.connection, past.copy, 0, end) as reader:
        return [at - ZERO for batch in reader for at in batch.column("timestamp").to_pylist()]


@pytest.mark.deep
def test_a_copy_that_somebody_else_made_is_never_replaced(past: Past) -> None:
    past.other.cluster.create_topic(past.copy.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    stamped(past.other, past.copy, [1])
    with pytest.raises(Refused, match="holds records and") as refused:
        past.plan(40, replace=True)
    assert refused.value.facts["topics"] == [past.copy.topic]


@pytest.mark.deep
def test_without_a_base_all_archived_input_is_read_from_the_beginning(past: Past) -> None:
    planned = past.plan(40, savepoint="none")
    assert (past.taken(planned)[1:], planned.part.with_state) == ((6, 0), False)
    assert [topic.name for topic in planned.create] == [past.copy.topic, f"{past.other.application_id}.out"]
    ticket = opened(past.other, past.request(40, savepoint="none"))
    saved(past.other, ticket)
    assert loaded(past.other, ticket) == 6
    restore.abandon(past.other, ticket)


@pytest.mark.deep
def test_it_is_stopped_only_when_everything_is_read_the_repartition_topics_too(past: Past) -> None:
    other = past.other
    ticket = opened(other, past.request(40))
    saved(other, ticket)
    loaded(other, ticket)
    with pytest.raises(Refused, match="this step belongs between recovered"):
        restore.drain(other, ticket)
    note(other, ticket, Phase.RECOVERED)
    commit(other, {past.copy: 6, past.tail: 2})
    with pytest.raises(ApplicationNotReady) as behind:
        restore.drain(other, ticket)
    assert behind.value.facts == {"left": [f"{past.tail} by 1"]}
    commit(other, {past.copy: 5, past.tail: 3})
    with pytest.raises(ApplicationNotReady, match=f"behind on {past.copy} by 1"):
        restore.drain(other, ticket)
    (command,) = restore.abandon(other, ticket).commands
    assert command.startswith("streams-recovery resume ")
    commit(other, {past.copy: 6, past.tail: 3})
    # Nobody is ever given these, so their offsets are never committed.
    aborted(other, past.copy)
    aborted(other, past.tail)
    with pytest.raises(PlanChanged):
        restore.resume(other, ticket.restore_id, run_id="again", approved_hash="another", take_over=False)
    approved = restore.plan_left(other, ticket.restore_id).hash
    resumed = restore.resume(other, ticket.restore_id, run_id="again", approved_hash=approved, take_over=False)
    assert restore.drain(other, resumed).partitions == 2
    restore.abandon(other, resumed)


@pytest.mark.deep
def test_a_restore_of_a_savepoint_as_it_is_does_not_pass_over_a_configured_moment(past: Past) -> None:
    timed = configured_for(past.small, restore={"time_window_end": "2026-11-21T12:00:00Z"})
    with pytest.raises(Refused, match=r"restore\.time_window_end is set"):
        restore.plan(timed, asked(timed, replace=True))
