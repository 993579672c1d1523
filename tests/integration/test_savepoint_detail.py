"""A savepoint of a real broker leaves behind what people look at."""

from __future__ import annotations

from streams_recovery.core.status.savepoint_detail import savepoint_detail
from streams_recovery.operations.status.read import detail
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small


def test_a_published_savepoint_has_a_detail_with_the_numbers_of_its_manifest(small: Small) -> None:
    savepoint_id = publish(small)
    recovery = small.recovery
    found = detail(recovery.repository, recovery.layout, savepoint_id)
    assert found == savepoint_detail(recovery.savepoints.read(savepoint_id))
    assert found is not None
    changelog = next(topic for topic in found.topics if topic.name == small.changelog.topic)
    assert changelog.records == sum(partition.end - partition.log_start for partition in changelog.partitions) > 0
