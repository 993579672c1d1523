"""Which keys a running application is asked for after a restore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.planned import PartitionLoad, TopicToCreate
from streams_recovery.core.state.edit import default_partition
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.restore.query_check import sampled
from tests.support.repository.state_repository import PARTITIONS, SECOND, environment, fill


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[RecoveryContext]:
    fill(tmp_path)
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        yield recovery


def planned(recovery: RecoveryContext, store: str) -> TopicToCreate:
    """The changelog of a store, as a plan loads it."""
    topic = recovery.savepoints.read(SECOND).topic(f"shop-{store}-changelog")
    assert topic is not None
    parts = tuple(PartitionLoad(partition=image.partition, files=SegmentFiles.of(image.files())) for image in topic.partitions)
    return TopicToCreate(
        name=topic.name, role=TopicRole.CHANGELOG, replication_factor=1, held_config={}, final_config={}, replaces=None, partitions=parts
    )


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_each_partition_that_has_records_is_in_it_however_few_keys_are_asked(shop: RecoveryContext, most: int) -> None:
    topic = planned(shop, "totals")
    sample = sampled(shop, topic, most)
    assert {default_partition(key, PARTITIONS) for key in sample} == {part.partition for part in topic.partitions if part.files.rows}
    assert len(sample) <= max(most, PARTITIONS)
    assert sample == sampled(shop, topic, most), "the same keys each time"


def test_a_deleted_key_is_asked_for_too_and_has_no_value(shop: RecoveryContext) -> None:
    sample = sampled(shop, planned(shop, "totals"))
    assert sample[b"dora"] is None
    assert sample[b"zoe"] == b"null"


def test_a_store_without_records_has_no_sample(shop: RecoveryContext) -> None:
    assert sampled(shop, planned(shop, "empty")) == {}
