"""A load and its proof in one Spark session: what is equal is not looked at twice, and what differs is compared key by key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms.load import load_partitions
from spark_jobs.transforms.read_back import read_back
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import RestoreSpec, VerifyResult, VerifySpec
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.proofs import Proof
from streams_recovery.operations import restore
from tests.support.kafka.records import write
from tests.support.spark.interrupted_restore import PARTITIONS, ROWS

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEYS = ROWS // 10
# The newest record of the key k49.
LAST = ROWS - 1


def damages(rows):
    stamp, key, value, headers = rows[LAST]
    (name, content), *_ = headers
    return {
        "one bit": [*rows[:LAST], (stamp, key, bytes([value[0] ^ 1]) + value[1:], headers)],
        "one bit of a header": [*rows[:LAST], (stamp, key, value, [(name, bytes([content[0] ^ 1]) + content[1:])])],
        "a header twice": [*rows[:LAST], (stamp, key, value, [*headers, *headers])],
        "a timestamp": [*rows[:LAST], (stamp + 1, key, value, headers)],
        "another order": [*rows[: LAST - KEYS], rows[LAST], *rows[LAST - KEYS + 1 : LAST], rows[LAST - KEYS]],
    }


def test_what_is_equal_is_proven_by_the_load_alone(case):
    ticket = case.created()
    case.load(ticket)
    assert restore.plan_verify(case.recovery, ticket, case.loads[ticket.restore_id]).spec is None
    summary = case.verify(ticket)
    assert [(one.proof, one.rows, one.keys_compared) for one in summary.partitions] == [(Proof.ROWS, ROWS, None)] * PARTITIONS
    asked = replace(ticket, request=replace(ticket.request, compare_keys=True))
    both = case.verify(asked)
    assert [(one.proof, one.rows, one.keys_compared) for one in both.partitions] == [(Proof.KEYS, ROWS, KEYS)] * PARTITIONS


@pytest.mark.deep
def test_one_bit_a_header_a_timestamp_and_another_order_are_found_and_their_keys_listed(spark, case):
    ticket, recovery = case.created(), case.recovery
    topic, [tp, other] = case.app.changelog, case.app.logs
    for how, rows in damages(case.saved_rows(0)).items():
        # What another producer than ours would have made of the same files.
        plan = restore.plan_load(recovery, ticket)
        spec = recovery.artifacts.read(RestoreSpec, plan.spec)
        access = JobAccess(connection=recovery.connection, location=recovery.repository.location, credentials=None)
        loaded = load_partitions(spark.sparkContext, replace(spec, read_back=False), access)
        assert loaded.read == (), how
        recovery.cluster.delete_topics([topic])
        recovery.cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1"})
        write(recovery.connection, tp, rows)
        write(recovery.connection, other, case.saved_rows(1))
        read = tuple(read_back(spark.sparkContext, [spec.partitions], access))
        result = recovery.artifacts.write(ticket.restore_id, "result", replace(loaded, read=read))
        restore.check_load(recovery, ticket, result)

        check = restore.plan_verify(recovery, ticket, result)
        wanted = recovery.artifacts.read(VerifySpec, check.spec)
        assert [(one.tp.partition, one.topic_id) for one in wanted.partitions] == [(0, case.topic_id())], how
        assert wanted.keyed == (topic,), how
        compared = case.job("verify", check, ticket)
        found = recovery.artifacts.read(VerifyResult, compared)
        assert [(one.tp.partition, one.keys_compared, one.keys_different, one.examples) for one in found.keys] == [
            (0, KEYS, 1, (b"k49".hex(),))
        ], how
        told = f"{tp}: {ROWS} records in the savepoint, {ROWS} in the topic, not the same; 1 of {KEYS} keys differ, such as {b'k49'.hex()}"
        with pytest.raises(Damaged, match=told) as differs:
            restore.check_verify(recovery, ticket, result, compared)
        assert differs.value.facts["partitions"] == [str(tp)], how
        with pytest.raises(Damaged, match="not the same"):
            restore.check_verify(recovery, ticket, result, None)
        assert restore.phase_of(recovery, ticket) is Phase.LOADED, how
        recovery.cluster.delete_topics([topic])  # a stranger's to this restore
        restore.prepare(recovery, ticket)


@pytest.mark.deep
def test_a_difference_that_no_newest_record_shows_is_found_all_the_same(case):
    ticket, recovery, tp = case.created(), case.recovery, case.app.logs[0]
    case.load(ticket)
    rows = case.saved_rows(0)
    recovery.cluster.delete_topics([tp.topic])
    recovery.cluster.create_topic(tp.topic, partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1"})
    write(recovery.connection, tp, [rows[1], rows[0], *rows[2:]])
    write(recovery.connection, case.app.logs[1], case.saved_rows(1))
    with pytest.raises(Damaged, match="newest records") as caught:
        case.verify(ticket)
    assert caught.value.facts["partitions"] == [str(tp)]
