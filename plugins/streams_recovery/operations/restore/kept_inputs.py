"""Inputs that stay as they are, looked at before a restore in place relies on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.repository.manifest import PartitionImage
from streams_recovery.core.restore.kept_inputs import KeptInput, check_same_records, outgrown_tables
from streams_recovery.core.restore.placement import Placed
from streams_recovery.operations.context import RecoveryContext


def check_kept(
    recovery: RecoveryContext, placed: Iterable[Placed], present: Mapping[str, TopicDescription], strategy: OffsetStrategy
) -> tuple[str, ...]:
    """What to say of them. Raises ``Refused`` naming those that lost records which the savepoint's state was made of."""
    images = {
        TopicPartition(one.name, image.partition): image
        for one in placed
        if one.image.role is TopicRole.INPUT and not one.made
        for image in one.image.partitions
    }
    kept = kept_inputs(recovery, images, present)
    sources: dict[str, list[str]] = {}
    for store, topic in recovery.config.sources.items():
        sources.setdefault(topic, []).append(store)
    return (*check_same_records(kept, strategy), *outgrown_tables(kept, sources))


def kept_inputs(
    recovery: RecoveryContext, images: Mapping[TopicPartition, PartitionImage], present: Mapping[str, TopicDescription]
) -> tuple[KeptInput, ...]:
    """Partitions of inputs as they are beside what a savepoint says of them."""
    epochs = {tp: image.leader_epoch for tp, image in images.items() if image.leader_epoch is not None}
    settings, ends = recovery.cluster.settings({tp.topic for tp in images}), recovery.cluster.high_watermarks(list(images))
    epoch_ends = recovery.cluster.epoch_ends(epochs)
    return tuple(
        KeptInput(
            tp=tp,
            image=image,
            leader_epoch=present[tp.topic].leader_epochs[tp.partition],
            epoch_end=epoch_ends.get(tp),
            end=ends[tp],
            compacted="compact" in settings[tp.topic].get("cleanup.policy", ""),
        )
        for tp, image in images.items()
    )
