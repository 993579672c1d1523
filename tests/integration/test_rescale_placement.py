"""What Kafka Streams itself has written, store by store: the form of its keys is proven, and its records are placed anew as another savepoint."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.kafka_types import Consistency, KeyForm, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rescale.placement import RescaledTopic, partition_of
from streams_recovery.core.rescale.values import SUBSCRIPTIONS, stream_time
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.edit import default_partition
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.rescale.derive import plan_derivation, proofs_of, publish_derived
from streams_recovery.operations.restore.values import UnderLock
from streams_recovery.segments.files import read_segment
from tests.support.applications.shape_inputs import ZERO, part
from tests.support.applications.shape_oracles import PARTITIONS
from tests.support.applications.shapes import Fleet, Open

pytestmark = [pytest.mark.deep, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

# By what the names of their changelogs end with. Everything else has the whole key.
FORMS = {
    "-subscription-store-changelog": KeyForm.FOREIGN_KEY,
    "-this-join-store-changelog": KeyForm.WINDOW,
    "-other-join-store-changelog": KeyForm.WINDOW,
    "-outer-other-join-store-changelog": KeyForm.WINDOW,
    "-left-shared-join-store-changelog": KeyForm.TIME_ORDERED,
    "-outer-shared-join-store-changelog": KeyForm.TIME_ORDERED,
    "-minutes-changelog": KeyForm.WINDOW,
    "-sessions-changelog": KeyForm.SESSION,
    "-suppressed-store-changelog": KeyForm.WINDOWED,
}


def submitted(recovery: RecoveryContext, submitter: Submitter, plan: JobPlan) -> ArtifactRef:
    assert plan.spec is not None
    assert plan.result_key is not None
    return submitter.submit(
        SparkJob(
            name="rescale", repository=recovery.repository, connection=None, credentials=None, spec=plan.spec, result_key=plan.result_key
        )
    )


def rows(recovery: RecoveryContext, manifest: Manifest, name: str) -> dict[int, list[dict]]:
    """The rows of each partition of a topic."""
    topic, root = manifest.topic(name), Path(str(recovery.repository.location))
    assert topic is not None
    return {
        image.partition: [row for file in image.files() for batch in read_segment(root / file.key, file) for row in batch.to_pylist()]
        for image in topic.partitions
    }


@pytest.mark.parametrize("number", [6, 1])
def test_the_form_of_every_store_is_proven_and_its_records_go_where_it_says(opened: Open, in_session: Submitter, number: int) -> None:
    shapes = ("inner", "left", "outer", "suppressed", "tables", "foreign", "memory", "versioned", "punctuated")
    app = opened(Fleet(shapes=shapes, mode="stop", survives=True))
    app.start()
    app.feed({shape: part(shape, 1, ZERO, last=False) for shape in shapes})
    app.savepoint()
    recovery = app.recovery
    source = recovery.savepoints.latest()
    assert source is not None
    assert source.consistency is Consistency.EXACT
    moving = [one for one in source.topics if one.role in (TopicRole.INPUT, TopicRole.CHANGELOG, TopicRole.REPARTITION)]
    topics = [RescaledTopic(name=one.name, old=PARTITIONS, new=number, history=one.role is TopicRole.INPUT) for one in moving]

    # Its processor makes keys of its own, and one that every partition has.
    own = [one for one in topics if one.name.endswith("-punctuated-waiting-changelog")]
    with pytest.raises(Refused, match="punctuated-waiting-changelog cannot be placed anew: no known part of the keys"):
        submitted(recovery, in_session, plan_derivation(recovery, source, own, work="refused", prove_only=True))
    topics = [one for one in topics if one not in own]
    moving = [one for one in moving if one.name != own[0].name]

    proved = submitted(recovery, in_session, plan_derivation(recovery, source, topics, work="proof", prove_only=True))
    forms = {proof.topic: proof.form for proof in proofs_of(recovery, source, topics, proved)}
    held = {one.name for one in moving if one.rows}
    assert held
    assert {name: form for name, form in forms.items() if name in held} == {
        name: next((form for ending, form in FORMS.items() if name.endswith(ending)), KeyForm.WHOLE) for name in held
    }

    lock = recovery.lock.acquire("rescaling", lease_seconds=LEASE_SECONDS, purpose="a test")
    run = UnderLock(application_id=recovery.application_id, restore_id="rescaling", requested_by="test", plan=proved, lock=lock)
    placed = submitted(recovery, in_session, plan_derivation(recovery, source, topics, work="rescaling"))
    made = publish_derived(recovery, source, topics, placed, run=run)
    assert publish_derived(recovery, source, topics, placed, run=run) == recovery.savepoints.read(made.savepoint_id)
    recovery.lock.release(lock)
    newest = recovery.savepoints.latest()
    assert newest is not None
    assert newest.savepoint_id == source.savepoint_id
    assert {one.topic for one in made.provenance.rescaled_from.topics} == set(forms)
    for one in moving:
        _check(recovery, source, made, one.name, forms[one.name], number)


def _check(recovery: RecoveryContext, source: Manifest, made: Manifest, name: str, form: KeyForm | None, number: int) -> None:
    """Row by row: every key with its records in their order, in the one partition where it lies now."""
    before, after = rows(recovery, source, name), rows(recovery, made, name)
    assert len(after) == number
    subscriptions = SUBSCRIPTIONS.fullmatch(name) is not None
    buffered = "suppress" in name and name.endswith("-store-changelog")
    wanted: dict[int, dict[bytes, list]] = {partition: {} for partition in after}
    for row in (row for partition in sorted(before) for row in before[partition]):
        value = row["value"]
        partition = partition_of(form or KeyForm.WHOLE, row["key"], number)
        assert partition is not None
        if value is not None and subscriptions:
            begin = 2 if value[0] & 0x80 else 18
            value = value[:-4] + struct.pack(">i", default_partition(value[begin:-4], number))
        if value is not None and buffered:
            at = 20 + struct.unpack_from(">i", value, 16)[0]
            value = value[:at] + struct.pack(">i", partition) + value[at + 4 :]
        wanted[partition].setdefault(row["key"], []).append((row["timestamp"], value, row["headers"]))
    for partition, several in after.items():
        found: dict[bytes, list] = {}
        for row in several:
            found.setdefault(row["key"], []).append((row["timestamp"], row["value"], row["headers"]))
        assert found == wanted[partition], (name, partition)
    old, new = source.topic(name), made.topic(name)
    assert old is not None
    assert new is not None
    if old.role is not TopicRole.CHANGELOG:
        times = [stream_time(image.committed.metadata) or -1 if image.committed else -1 for image in old.partitions]
        for image in new.partitions:
            mine = [times[at] for at in range(PARTITIONS) if (image.partition - at) % (2 if number % 2 == 0 else 1) == 0]
            assert image.committed is not None
            assert (stream_time(image.committed.metadata) or -1) == max(mine)
