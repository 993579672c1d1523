"""The log cleaner at work while a restore is under way: it comes near nothing that was restored before it may."""

from __future__ import annotations

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms.read_back import digest_of_range
from streams_recovery.core.topic_holds.compaction_guard import MIN_COMPACTION_LAG
from streams_recovery.core.waiting import poll
from streams_recovery.operations import restore, topic_holds
from tests.support.applications.restore_steps import load_of, loaded, opened, saved
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, lose_state
from tests.support.examples.rows import rows_in
from tests.support.kafka.cleaner import EAGER, ROWS, await_cleaner, updated
from tests.support.kafka.records import read
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka


@pytest.mark.fault("F35")
def test_every_row_is_there_although_the_cleaner_has_come_to_the_same_records_elsewhere(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    updated(recovery, tp)
    # Only now: all of it is one segment, the one that is written to, which the cleaner leaves alone.
    alter(recovery.cluster, {tp.topic: dict(EAGER)})
    publish(small)
    lose_state(small)
    ticket = opened(recovery, asked(recovery))
    saved(recovery, ticket)
    assert loaded(recovery, ticket) == 4 + ROWS + 3
    created = recovery.cluster.describe_topics([tp.topic])[tp.topic].config
    assert {key: created[key] for key in EAGER} == EAGER, "nothing but the hold keeps the cleaner away"

    await_cleaner(recovery)
    assert restore.plan_verify(recovery, ticket, load_of(ticket)).spec is None, "no log has changed since it was read back"
    proofs = {one.topic: one.rows for one in restore.check_verify(recovery, ticket, load_of(ticket), None).partitions}
    assert proofs[tp.topic] == 4 + ROWS
    access = JobAccess(connection=recovery.connection, location=recovery.repository.location, credentials=recovery.credentials)
    assert digest_of_range(access.connection, tp, 0, 4 + ROWS).rows == 4 + ROWS, "and all of it is there still"

    topic_holds.release_restore_holds(recovery)
    assert MIN_COMPACTION_LAG not in recovery.cluster.describe_topics([tp.topic])[tp.topic].config
    assert poll(lambda: len(rows_in(read(recovery.connection, tp, 0, 4 + ROWS))) < ROWS // 2 or None, seconds=120, interval=0.5), (
        "and then it comes"
    )
    restore.abandon(recovery, ticket)
