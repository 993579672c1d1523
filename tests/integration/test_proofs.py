"""What a load reads back is proof as long as nothing changes: with a real broker, and with whatever may come between the load and its verification."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from spark_jobs.access import JobAccess
from spark_jobs.transforms.read_back import ReadShare, read_share
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.jobs.spec import PartitionToVerify, RestoreResult, VerifySpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.proofs import Need, Proof
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import entries, note, stored_plan
from streams_recovery.operations.restore.report import Checked, report_of
from streams_recovery.operations.restore.verify import require_verified
from tests.support.applications.restore_steps import checked, compare, load, load_of, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked
from tests.support.applications.topic_records import delete_below, produce, recreate
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import read, write
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka


def restored(small: Small, **changes: object) -> restore.RestoreTicket:
    """A restore of what the small application lost, up to the end of its load."""
    recovery = small.recovery
    publish(small)
    recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    ticket = opened(recovery, asked(recovery, **changes))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    return ticket


def compared(recovery: RecoveryContext, ticket: restore.RestoreTicket) -> tuple[PartitionToVerify, ...]:
    """What a comparison would compare now."""
    job = restore.plan_verify(recovery, ticket, load_of(ticket))
    return () if job.spec is None else recovery.artifacts.read(VerifySpec, job.spec).partitions


def wanted(recovery: RecoveryContext, ticket: restore.RestoreTicket) -> list[TopicPartition]:
    """The partitions that it would be about."""
    return [one.tp for one in compared(recovery, ticket)]


def rows_proven(recovery: RecoveryContext, ticket: restore.RestoreTicket) -> list[bool]:
    """Which of these are proven by their rows already."""
    return [one.rows_proven for one in compared(recovery, ticket)]


@pytest.mark.deep
def test_state_whose_keys_are_all_deleted_is_a_state_like_another(small: Small) -> None:
    recovery = small.recovery
    producer = Producer(recovery.connection.client_config())
    for number in range(4):
        producer.produce(small.changelog.topic, None, b"k%d" % number, small.changelog.partition)
    assert producer.flush(30) == 0
    ticket = restored(small)
    found = verified(recovery, ticket)
    [state] = [one for one in found.partitions if one.topic == small.changelog.topic]
    assert (state.proof, state.rows, state.keys_compared) == (Proof.ROWS, 8, None)
    report = report_of(
        recovery, ticket, stored_plan(recovery, ticket), Checked(verified=found, query_checks=()), entries(recovery, ticket), ()
    )
    assert report.verdict is restore.Verdict.EQUAL
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_state_of_nothing_but_tombstones_or_without_a_record_is_proven_too(small: Small) -> None:
    recovery = small.recovery
    recreate(recovery, small.changelog.topic)
    write(recovery.connection, small.changelog, [(1_700_000_000_000, b"k", None, None)])
    recovery.cluster.create_topic(
        f"{recovery.application_id}-bare-changelog", partitions=2, replication_factor=1, config={"cleanup.policy": "compact"}
    )
    publish(small)
    mine = [small.changelog.topic, small.tail.topic, f"{recovery.application_id}-bare-changelog"]
    recovery.cluster.delete_topics(mine)
    ticket = opened(recovery, asked(recovery))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    found = verified(recovery, ticket)
    proofs = {TopicPartition(one.topic, one.partition): (one.proof, one.rows) for one in found.partitions}
    assert proofs == {
        small.changelog: (Proof.ROWS, 1),
        small.tail: (Proof.ROWS, 3),
        TopicPartition(mine[2], 0): (Proof.EMPTY, 0),
        TopicPartition(mine[2], 1): (Proof.EMPTY, 0),
    }
    report = report_of(
        recovery, ticket, stored_plan(recovery, ticket), Checked(verified=found, query_checks=()), entries(recovery, ticket), ()
    )
    assert report.verdict is restore.Verdict.EQUAL
    produce(recovery, TopicPartition(mine[2], 1), 1)
    assert wanted(recovery, ticket) == [TopicPartition(mine[2], 1)]
    with pytest.raises(Damaged) as caught:
        restore.check_verify(recovery, ticket, load_of(ticket), None)
    assert (caught.value.facts["compared"], caught.value.facts["problems"]) == (4, {f"{mine[2]}-1": str(Need.NOT_READ)})
    restore.abandon(recovery, ticket)
    recovery.cluster.delete_topics(mine[2:])


def test_what_is_read_back_is_what_the_broker_has_not_what_was_written(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    access = JobAccess(connection=recovery.connection, location=recovery.repository.location, credentials=recovery.credentials)
    [before] = read_share(ReadShare(partitions=(tp,)), access).partitions
    produce(recovery, tp, 1)
    [longer] = read_share(ReadShare(partitions=(tp,)), access).partitions
    assert (before.start, before.end, before.rows, longer.end, longer.rows) == (0, 4, 4, 5, 5)
    alter(recovery.cluster, {tp.topic: {"cleanup.policy": "delete"}})  # else nobody may delete records
    delete_below(recovery, tp, 2)
    [shorter] = read_share(ReadShare(partitions=(tp,)), access).partitions
    assert (shorter.start, shorter.end, shorter.rows) == (2, 5, 3)
    rows = rows_in(read(recovery.connection, tp, 2, 5))
    old, new = recreate(recovery, tp.topic)
    write(recovery.connection, tp, rows)
    [other] = read_share(ReadShare(partitions=(tp,)), access).partitions
    assert (longer.topic_id, other.topic_id, other.start, other.digest) == (old, new, 0, shorter.digest)


def test_what_somebody_wrote_after_the_load_is_compared_again_and_never_passes(small: Small) -> None:
    recovery = small.recovery
    ticket = restored(small)
    assert wanted(recovery, ticket) == []
    produce(recovery, small.changelog, 1)
    with pytest.raises(Damaged) as caught:
        restore.check_verify(recovery, ticket, load_of(ticket), None)
    assert (caught.value.facts["compared"], caught.value.facts["problems"]) == (2, {str(small.changelog): str(Need.CHANGED)})
    assert wanted(recovery, ticket) == [small.changelog], "the other one is proven"
    with pytest.raises(Damaged) as caught:
        verified(recovery, ticket)
    [(partition, problem)] = caught.value.facts["problems"].items()
    assert (partition, "4 records" in problem, "5 in the topic" in problem) == (str(small.changelog), True, True)
    assert restore.phase_of(recovery, ticket) is Phase.LOADED
    with pytest.raises(Damaged) as caught:
        require_verified(recovery, ticket)
    assert caught.value.facts == {"restore": ticket.restore_id}
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_a_log_of_another_identity_is_compared_again_and_passes_if_it_is_equal(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    ticket = restored(small)
    rows = rows_in(read(recovery.connection, tp, 0, 4))
    recreate(recovery, tp.topic)
    write(recovery.connection, tp, rows)
    with pytest.raises(Damaged) as caught:
        restore.check_verify(recovery, ticket, load_of(ticket), None)
    assert caught.value.facts["problems"] == {str(tp): str(Need.CHANGED)}
    compared = compare(recovery, restore.plan_verify(recovery, ticket, load_of(ticket)))
    proofs = {one.topic: (one.proof, one.rows) for one in restore.check_verify(recovery, ticket, load_of(ticket), compared).partitions}
    assert proofs == {tp.topic: (Proof.KEYS, 4), small.tail.topic: (Proof.ROWS, 3)}

    alter(recovery.cluster, {tp.topic: {"cleanup.policy": "delete"}})
    delete_below(recovery, tp, 1)
    with pytest.raises(Damaged) as caught:
        restore.check_verify(recovery, ticket, load_of(ticket), compared)
    assert caught.value.facts["problems"] == {str(tp): str(Need.CHANGED)}
    recovery.cluster.delete_topics([tp.topic])
    with pytest.raises(NotFound):
        restore.plan_verify(recovery, ticket, load_of(ticket))
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_a_result_that_has_read_nothing_back_proves_nothing(small: Small) -> None:
    recovery = small.recovery
    ticket = restored(small)
    job = restore.plan_load
    with pytest.raises(Exception, match="belongs between created and loaded"):
        job(recovery, ticket)
    accepted = load_of(ticket)
    assert accepted is not None
    whole = recovery.artifacts.read(RestoreResult, accepted)

    def compared(result: RestoreResult) -> int:
        left = recovery.artifacts.write(ticket.restore_id, "told", result)
        job = restore.plan_verify(recovery, ticket, left)
        with pytest.raises(Damaged) as told:
            restore.check_verify(recovery, ticket, left, None)
        assert (len(told.value.facts["partitions"]), told.value.facts["compared"]) == (job.ranges, 2)
        assert (
            "not the same" if result.read and result.partitions and result.read[0].digest == "0" * 64 else "not read back"
        ) in told.value.reason
        return job.ranges

    assert compared(replace(whole, read=())) == 2
    assert compared(replace(whole, read=whole.read[1:])) == 1
    assert compared(replace(whole, partitions=())) == 2
    assert compared(replace(whole, read=tuple(replace(one, digest="0" * 64) for one in whole.read))) == 2
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_a_load_that_goes_on_behind_what_is_there_has_a_digest_of_all_of_it(small: Small) -> None:
    recovery = small.recovery
    ticket = restored(small)
    first = verified(recovery, ticket)
    restore.prepare(recovery, ticket)
    note(recovery, ticket, Phase.CREATED)
    load(recovery, restore.plan_load(recovery, ticket))
    again = load(recovery, restore.plan_load(recovery, ticket))
    assert sum(one.present for one in recovery.artifacts.read(RestoreResult, again).partitions) == 7
    assert checked(recovery, ticket, again).present == 7
    assert verified(recovery, ticket) == first
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_keys_are_compared_when_that_is_asked_for(small: Small) -> None:
    recovery = small.recovery
    ticket = restored(small, compare_keys=True)
    assert wanted(recovery, ticket) == [small.changelog], "only state has keys"
    assert rows_proven(recovery, ticket) == [True], "its rows are not read once more"
    with pytest.raises(Damaged, match=f"{small.changelog}: its keys"):
        restore.check_verify(recovery, ticket, load_of(ticket), None)
    summary = verified(recovery, ticket)
    assert [(one.topic, one.proof) for one in summary.partitions] == [(small.tail.topic, Proof.ROWS), (small.changelog.topic, Proof.KEYS)]
    assert summary.keys_compared == 4
    plain = replace(ticket, request=replace(ticket.request, compare_keys=False))
    assert wanted(recovery, plain) == []
    produce(recovery, small.changelog, 1)
    assert rows_proven(recovery, ticket) == [False], "the load's proof is of another log"
    with pytest.raises(Damaged, match="it changed after it was read"):
        restore.check_verify(recovery, ticket, load_of(ticket), None)
    restore.abandon(recovery, ticket)
