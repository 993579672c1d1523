"""What people look at of a savepoint says what its manifest says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.manifest import Gap
from streams_recovery.core.status.savepoint_detail import MOST_NAMED, SavepointDetail, require_about, savepoint_detail
from tests.support.examples.manifests import copied, manifest_with, partition

GAP = Gap(start=5, end=7, reason="deleted by retention")


def test_a_detail_has_the_numbers_of_the_manifest_and_comes_back_from_json() -> None:
    manifest = manifest_with(partition([copied(0, 5), copied(7, 9)], [GAP], end=9), replace(partition([], [], end=4), partition=1))
    detail = savepoint_detail(manifest)
    assert codec.loads(SavepointDetail, codec.dumps(detail), where="detail") == detail
    (topic,) = detail.topics
    assert (topic.records, topic.bytes, topic.gap_count, topic.committed) == (manifest.records, 200, 1, 6)
    assert [(one.end, one.records, one.files, one.gaps) for one in topic.partitions] == [(9, 2, 2, (GAP,)), (4, 0, 0, ())]
    assert (detail.captured_at, detail.run_id, detail.proof.held_seconds) == (manifest.captured_at, "run", 0.5)


def test_only_inputs_say_how_far_the_application_had_read() -> None:
    manifest = manifest_with(partition([], [], end=4))
    as_input = replace(manifest.topics[0], name="orders", role=TopicRole.INPUT)
    assert savepoint_detail(replace(manifest, topics=(*manifest.topics, as_input))).input_positions() == {"orders": 3}
    assert savepoint_detail(manifest).input_positions() == {}


def test_a_partition_of_many_gaps_names_the_first_and_counts_all() -> None:
    gaps = [Gap(start=at, end=at + 1, reason="gone") for at in range(MOST_NAMED + 3)]
    (topic,) = savepoint_detail(manifest_with(partition([], gaps, end=100))).topics
    assert (len(topic.partitions[0].gaps), topic.gap_count) == (MOST_NAMED, MOST_NAMED + 3)


def test_a_detail_of_another_savepoint_is_damage() -> None:
    detail = savepoint_detail(manifest_with(partition([], [], end=4)))
    require_about(detail, "orders", detail.savepoint_id, where="here")
    with pytest.raises(Damaged, match="is about savepoint"):
        require_about(detail, "payments", detail.savepoint_id, where="here")
