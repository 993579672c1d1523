"""What a savepoint says of the loss of the cluster, and what comes of it, on a real broker that loses every topic of an application."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.survival import lost_with_cluster
from streams_recovery.operations import restore
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import Small, asked, lose, rows_of, surviving
from tests.support.applications.topic_records import delete_below, produce


def test_a_savepoint_that_says_it_survives_is_restored_when_every_topic_is_gone(small: Small) -> None:
    kept = surviving(small)
    summary = take(kept)
    assert (summary.survives_cluster_loss, summary.warnings) == (True, ())
    lose(kept)
    assert restore.plan(kept.recovery, asked(kept.recovery)).observed.records_to_catch_up == 1
    ticket = opened(kept.recovery, asked(kept.recovery))
    saved(kept.recovery, ticket)
    assert loaded(kept.recovery, ticket) == 5 + 4 + 3
    restore.abandon(kept.recovery, ticket)


def test_one_that_says_it_does_not_is_refused_for_the_reason_it_gave(small: Small) -> None:
    summary = take(small)
    assert not summary.survives_cluster_loss
    [reason] = lost_with_cluster(small.recovery.savepoints.read(summary.savepoint_id))
    assert reason == f"the records of {small.input.topic} are not archived"
    lose(small)
    with pytest.raises(Refused, match="is gone") as caught:
        restore.plan(small.recovery, asked(small.recovery))
    assert [small.input.topic in problem for problem in caught.value.facts["problems"]] == [True]


def test_one_savepoint_without_inputs_in_between_does_not_begin_their_archive_anew(small: Small) -> None:
    archiving = surviving(small)
    recovery, tp = archiving.recovery, small.input
    first = take(archiving)
    second = take(small)
    between = recovery.savepoints.read(second.savepoint_id).topic(tp.topic)
    assert between is not None
    assert between.archived is False
    produce(recovery, tp, 2)
    delete_below(recovery, tp, 3)
    third = take(archiving)
    manifest = recovery.savepoints.read(third.savepoint_id)
    assert not any("begins anew" in warning for warning in third.warnings)
    assert manifest.parent_id == first.savepoint_id
    assert [row["offset"] for row in rows_of(recovery, manifest, tp)] == list(range(7)), "also what retention has deleted since"
