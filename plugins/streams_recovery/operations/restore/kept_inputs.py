"""Inputs that stay as they are, looked at before a restore in place relies on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest, PartitionImage
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


def joined_inputs(recovery: RecoveryContext, manifest: Manifest, placed: Collection[str]) -> dict[TopicPartition, int]:
    """Inputs that the savepoint does not have, with the offset at which its state goes on there: it has nothing of their records. They are read since then:
    by a pattern, by a changed configuration, or without one, as committed offsets show. These offsets would skip what the lost state had of them.
    """
    existing = recovery.cluster.topic_names()
    read = {
        *recovery.config.topics.on(existing).inputs,
        *(tp.topic for tp in recovery.groups.committed_partitions(recovery.application_id)),
    }
    names = [name for name in read.intersection(existing).difference(placed) if recovery.config.internal_role(name) is None]
    there = recovery.cluster.describe_topics(names) if names else {}
    partitions = [TopicPartition(name, number) for name, found in sorted(there.items()) for number in range(found.partitions)]
    if not partitions:
        return {}
    if recovery.config.application.auto_offset_reset != "latest":
        return recovery.cluster.log_starts(partitions)
    # It began at the ends that they had when it joined: no earlier than at the savepoint.
    since, ends = recovery.cluster.offsets_for_times(partitions, manifest.captured_at), recovery.cluster.high_watermarks(partitions)
    return {tp: ends[tp] if (offset := since[tp]) is None else offset for tp in partitions}


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
