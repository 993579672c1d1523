"""Inputs that are cut where they are: what it takes, what it does to everybody who reads them, and how the later records come back."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer

from streams_recovery.core.errors import Damaged, NotFound, PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.parts.moment import MomentPart
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.operations import maintenance, restore
from streams_recovery.operations.restore.in_place import set_aside
from streams_recovery.operations.restore.moments import check_still
from streams_recovery.operations.restore.open import note, stored_plan
from tests.support.applications.in_place import SETTINGS, Here, closed, cut, opened_append
from tests.support.applications.restore_steps import load, loaded, opened, saved
from tests.support.applications.timed_inputs import FIRST, SECOND, fresh, stamped
from tests.support.examples.rows import rows_in
from tests.support.kafka.consumers import committed, member
from tests.support.kafka.records import read, write
from tests.support.kafka.streams_member import ShareMember, StreamsMember

pytestmark = pytest.mark.kafka

ALL = [*FIRST, *SECOND]


@pytest.mark.deep
def test_later_records_come_out_and_everybody_goes_on_where_they_were(here: Here) -> None:
    recovery, before = here.recovery, here.topic_id()
    planned = restore.plan(recovery, here.request(40))
    assert isinstance(planned.part, MomentPart)
    assert planned.part.in_place is not None
    assert planned.part.in_place.ends == {here.input: 8}
    assert [(topic.name, topic.rows) for topic in planned.part.in_place.later] == [(here.input.topic, 2)]
    assert [(one.group, one.before, one.wanted.offset, one.again) for one in planned.part.in_place.groups] == [(here.reader, 5, 4, 1)]
    page = planned.text
    for told in ("2 later records are removed", f"| {here.input.topic} | 2 |", f"| {here.reader} | {here.input} | 5 | 4 | 1 |", here.late):
        assert told in page
    assert here.times() == ALL

    ticket = cut(here)
    assert here.times() == [10, 20, 20, 30, 40, 40]
    assert here.topic_id() != before
    assert committed(recovery, here.input) == [(2, "AgAA")]
    assert committed(recovery, here.input, group=here.reader) == [(4, "")]
    config = owner_config(recovery.cluster.describe_topics([here.input.topic])[here.input.topic].config)
    assert {key: config[key] for key in SETTINGS} == SETTINGS, "all that its owner had set"
    assert here.kept() == {here.late}
    restore.wipe(recovery, ticket)
    recovery.groups.delete(here.reader)
    with pytest.raises(Damaged) as caught:
        restore.start(recovery, ticket)
    assert caught.value.facts["lost"] == [(here.reader, str(here.input), 4)]
    assert caught.value.commands == (f"streams-recovery resume {recovery.config.name} {ticket.restore_id} --approve {ticket.plan_hash}",)
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_a_run_that_died_after_it_had_deleted_an_input_goes_on(here: Here) -> None:
    recovery = here.recovery
    ticket = opened(recovery, here.request(40))
    saved(recovery, ticket)
    set_aside(recovery, ticket, stored_plan(recovery, ticket), restore.plan(recovery, ticket.request))
    note(recovery, ticket, Phase.DESTROYING)
    recovery.cluster.delete_topics([here.input.topic])
    loaded(recovery, ticket)
    note(recovery, ticket, Phase.VERIFIED)
    restore.set_offsets(recovery, ticket)
    assert here.times() == [10, 20, 20, 30, 40, 40]
    assert committed(recovery, here.input, group=here.reader) == [(4, "")]
    note(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)
    assert restore.plan_append(recovery, ticket.restore_id).rows == {here.input: 2}


@pytest.mark.deep
@pytest.mark.parametrize(("by", "left"), [(CutBy.TIMESTAMP, [10, 20, 20]), (CutBy.POSITION, [10, 20, 20])])
def test_the_input_is_cut_as_a_copy_would_be(here: Here, by: CutBy, left: list[int]) -> None:
    ticket = opened(here.recovery, here.request(20, by))
    saved(here.recovery, ticket)
    loaded(here.recovery, ticket)
    assert here.times() == left
    restore.abandon(here.recovery, ticket)


@pytest.mark.deep
def test_an_input_without_later_records_stays_as_it_is(here: Here) -> None:
    planned = restore.plan(here.recovery, here.request(10**6, groups=()))
    assert isinstance(planned.part, MomentPart)
    assert planned.part.in_place is not None
    assert (planned.part.in_place.later, planned.part.in_place.groups) == ((), ())
    assert here.input.topic not in {topic.name for topic in planned.create}
    assert {item.tp: item.wanted.offset for item in planned.offsets}[here.input] == 7
    ticket = opened(here.recovery, here.request(10**6, groups=()))
    before = here.topic_id()
    saved(here.recovery, ticket)
    restore.prepare(here.recovery, ticket)
    assert (here.topic_id(), here.times(), here.kept()) == (before, ALL, set())
    note(here.recovery, ticket, Phase.CLOSED)
    here.recovery.lock.release(ticket.lock)
    with pytest.raises(NotFound, match="set input aside") as caught:
        restore.plan_append(here.recovery, "latest")
    assert caught.value.facts == {"application_id": here.recovery.application_id}


@contextmanager
def open_transaction(here: Here) -> Iterator[None]:
    producer = Producer({**here.recovery.connection.client_config(), "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(here.input.topic, b"undecided", b"k", 0)
    producer.flush(30)
    try:
        yield
    finally:
        producer.abort_transaction(30)


@pytest.mark.deep
def test_what_cannot_be_cut_is_refused_with_every_reason_and_nothing_is_touched(here: Here) -> None:
    recovery, before = here.recovery, here.topic_id()
    with pytest.raises(Refused) as caught:
        restore.plan(recovery, here.request(40, in_place=False))
    assert caught.value.facts == {"application_id": recovery.application_id}
    assert "(`in_place`)" in caught.value.next_step
    with pytest.raises(Refused, match="only an application's own inputs"):
        restore.plan(recovery, here.request(40, source="another"))
    with pytest.raises(TargetNotEmpty, match=here.input.topic):
        restore.plan(recovery, here.request(40, replace=False))
    with pytest.raises(Refused) as caught:
        restore.plan(recovery, here.request(40, groups=("somebody",)))
    assert (caught.value.facts["unnamed"], caught.value.facts["members"]) == ({here.reader: (here.input.topic,)}, {})
    with member(recovery, here.reader, here.input.topic), pytest.raises(Refused) as caught:
        restore.plan(recovery, here.request(40))
    assert (caught.value.facts["unnamed"], caught.value.facts["members"]) == ({}, {here.reader: ("it-member",)})
    recovery.groups.wait_empty(here.reader, 30)
    with open_transaction(here), pytest.raises(Refused) as caught:
        restore.plan(recovery, here.request(40, groups=()))
    facts = caught.value.facts
    assert facts["not_archived"] == {str(here.input): (9, 8)}
    assert len(facts["transactions"]) == 1
    assert (facts["unnamed"], facts["members"]) == ({here.reader: (here.input.topic,)}, {})
    assert (here.topic_id(), here.kept(), recovery.lock.holder()) == (before, set(), None)
    assert committed(recovery, here.input, group=here.reader) == [(5, "mine")]


READERS: dict[str, Callable[[Here, str], AbstractContextManager[object]]] = {
    "classic": lambda here, group: subscribed(here, group, {}),
    "consumer": lambda here, group: subscribed(here, group, {"group.protocol": "consumer"}),
    "streams": lambda here, group: joined(StreamsMember(here.recovery.connection.bootstrap_servers, group, here.input.topic)),
    "share": lambda here, group: joined(ShareMember(here.recovery.connection.bootstrap_servers, group, here.input.topic)),
}


@contextmanager
def subscribed(here: Here, group: str, protocol: dict[str, str]) -> Iterator[None]:
    """A member that commits nothing to Kafka, with an assignment."""
    given = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "client.id": "elsewhere", **protocol}
    consumer = Consumer({**here.recovery.connection.client_config(), **given})
    consumer.subscribe([here.input.topic])
    try:
        assert consumer.poll(60) is not None
        yield
    finally:
        consumer.close()


@contextmanager
def joined(member: StreamsMember | ShareMember) -> Iterator[None]:
    member.join()
    try:
        yield
    finally:
        member.leave()


@pytest.mark.deep
@pytest.mark.parametrize("kind", READERS)
def test_a_live_reader_without_offsets_in_kafka_blocks_under_every_protocol_and_no_naming_changes_that(here: Here, kind: str) -> None:
    recovery, group, before = here.recovery, f"{here.reader}.{kind}", here.topic_id()
    assert group not in recovery.cluster.groups()
    with READERS[kind](here, group):
        assert recovery.cluster.groups()[group] == kind
        for named in ((here.reader,), (here.reader, group)):
            with pytest.raises(Refused) as caught:
                restore.plan(recovery, here.request(40, groups=named))
            assert set(caught.value.facts["members"]) == {group}
            assert any(f"group {group} has members of {here.input.topic}" in one for one in caught.value.facts["problems"])
        # An input of which nothing comes out stays, with all who read it.
        assert isinstance(restore.plan(recovery, here.request(10**6, groups=())).part, MomentPart)
    recovery.groups.wait_empty(group, 60)
    planned = restore.plan(recovery, here.request(40))
    assert isinstance(planned.part, MomentPart)
    assert planned.part.in_place is not None
    assert planned.part.in_place.begin_anew == {}
    assert here.topic_id() == before


@pytest.mark.deep
def test_logs_are_watched_for_as_long_as_it_says(here: Here) -> None:
    done = threading.Event()

    def writing() -> None:
        while not done.wait(0.05):
            stamped(here.recovery, here.input, [70])

    check_still(here.recovery, [here.input], 0.5)
    writer = threading.Thread(target=writing)
    writer.start()
    try:
        with pytest.raises(Refused) as caught:
            check_still(here.recovery, [here.input], 2)
        assert caught.value.facts == {"topics": [str(here.input)]}
    finally:
        done.set()
        writer.join()


@pytest.mark.deep
def test_nothing_is_deleted_once_something_came_after_the_approval(here: Here) -> None:
    recovery, before = here.recovery, here.topic_id()
    ticket = opened(recovery, here.request(40))
    saved(recovery, ticket)
    planned = restore.plan(recovery, ticket.request)
    stamped(recovery, here.input, [70])
    with pytest.raises(Refused) as caught:
        restore.prepare(recovery, ticket)
    assert caught.value.facts["not_archived"] == {str(here.input): (9, 8)}
    with pytest.raises(PlanChanged, match="a producer") as changed:
        set_aside(recovery, ticket, planned, planned)
    assert changed.value.facts == {"topics": [str(here.input)]}
    assert isinstance(planned.part, MomentPart)
    moved = replace(planned, part=replace(planned.part, in_place=replace(planned.part.in_place, groups=())))  # type: ignore[type-var]
    with pytest.raises(PlanChanged, match="other offsets be moved"):
        set_aside(recovery, ticket, moved, planned)
    assert (here.topic_id(), here.times()) == (before, [*ALL, 70])
    assert restore.phase_of(recovery, ticket) is Phase.SAVED
    assert restore.abandon(recovery, ticket).next_step == "the application goes on as it was"


@pytest.mark.deep
def test_what_somebody_writes_into_an_input_that_is_made_again_is_never_deleted(here: Here) -> None:
    ticket = opened(here.recovery, here.request(20))
    saved(here.recovery, ticket)
    restore.prepare(here.recovery, ticket)
    stamped(here.recovery, here.input, [70, 71, 72, 73])
    with pytest.raises(TargetNotEmpty) as caught:
        restore.plan_load(here.recovery, ticket)
    assert caught.value.facts == {"topics": [here.input.topic]}
    assert here.times() == [70, 71, 72, 73]
    restore.abandon(here.recovery, ticket)


def appended(here: Here, ticket: restore.AppendTicket) -> restore.AppendReport:
    """The job, done here, and its end."""
    recovery = here.recovery
    return restore.finish_append(recovery, ticket, load(recovery, restore.plan_append_job(recovery, ticket)))


@pytest.mark.deep
@pytest.mark.fault("F20")
def test_a_result_of_another_run_ends_no_append(here: Here) -> None:
    closed(here)
    ticket = opened_append(here)
    job = restore.plan_append_job(here.recovery, ticket)
    mine = load(here.recovery, job)
    with pytest.raises(Refused, match="is of another attempt"):
        restore.finish_append(here.recovery, ticket, replace(mine, key=here.recovery.layout.work("another", "append-result.0001")))
    assert restore.finish_append(here.recovery, ticket, mine).rows == 2


@pytest.mark.way("append")
def test_what_came_out_is_appended_once_as_it_was(here: Here) -> None:
    recovery = here.recovery
    whole = rows_in(read(recovery.connection, here.input, 0, 8))
    restore_id = closed(here)
    stamped(recovery, here.input, [80])  # what has come since stays before it
    planned = restore.plan_append(recovery, "latest")
    assert (planned.restore_id, planned.rows, planned.ends) == (
        restore_id,
        {here.input: 2},
        {here.input: 7},
    )
    assert f"| {here.input} | 2 | 7 | 0 |" in planned.text
    with pytest.raises(PlanChanged):
        restore.open_append(recovery, restore_id, run_id="r", requested_by="test", approved_hash="another")
    assert recovery.lock.holder() is None
    assert (appended(here, opened_append(here)).rows, here.times()) == (2, [10, 20, 20, 30, 40, 40, 80, 50, 60])
    now = rows_in(read(recovery.connection, here.input, 0, 9))
    assert now[7:] == [whole[3], whole[7]], "key, value, headers and time"
    assert (here.kept(), recovery.lock.holder()) == (set(), None)
    with pytest.raises(Refused) as caught:
        restore.plan_append(recovery, restore_id)
    assert caught.value.facts["restore"] == restore_id
    assert isinstance(caught.value.facts["appended_at"], int)


@pytest.mark.deep
def test_an_append_ends_its_own_mark_and_leaves_a_person_s(here: Here) -> None:
    recovery = here.recovery
    restore_id = closed(here)
    assert here.kept() == {here.late}
    maintenance.pin(recovery, here.late, keep=True, requested_by="auditor", reason="end of the quarter")
    assert appended(here, opened_append(here, restore_id)).rows == 2
    assert here.kept() == {here.late}, "the auditor has not released it"
    maintenance.pin(recovery, here.late, keep=False, requested_by="auditor", reason="the check is over")
    assert here.kept() == set()


@pytest.mark.deep
def test_an_append_that_broke_off_goes_on_behind_what_it_left(here: Here) -> None:
    recovery = here.recovery
    whole = rows_in(read(recovery.connection, here.input, 0, 8))
    closed(here)
    dead = opened_append(here)
    write(recovery.connection, here.input, [whole[3]])
    restore.leave_append(recovery, dead)
    assert restore.plan_append(recovery, "latest").present == {here.input: 1}
    report = appended(here, opened_append(here))
    assert (report.rows, report.present) == (2, 1)
    assert here.times() == [10, 20, 20, 30, 40, 40, 50, 60]


@pytest.mark.deep
def test_an_append_is_refused_into_other_topics_behind_a_stranger_and_during_a_restore(here: Here) -> None:
    recovery = here.recovery
    ticket = cut(here)
    with pytest.raises(Refused, match=f"restore {ticket.restore_id} of .* failed"):
        restore.plan_append(recovery, "latest")
    note(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)
    with pytest.raises(NotFound, match="has set no input aside"):
        restore.plan_append(recovery, "20260101T000000Z-0123456789")
    restore.leave_append(recovery, opened_append(here))
    stamped(recovery, here.input, [70, 70, 70])
    with pytest.raises(Refused, match="another producer") as caught:
        restore.plan_append(recovery, "latest")
    assert caught.value.facts == {"topics": [str(here.input)]}
    fresh(recovery, here.input)
    with pytest.raises(Refused) as caught:
        restore.plan_append(recovery, "latest")
    assert caught.value.facts == {"restore": ticket.restore_id, "topics": [here.input.topic]}
