"""Whether the logs that were read are still those the cut went through. Offsets mean nothing in another log under the same name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams_recovery.core.errors import Damaged, TransientError
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery
from streams_recovery.operations.savepoint.values import CutDraft, DraftTopic


def check_same_application(before: Discovery, after: Discovery) -> None:
    """Raise ``TransientError`` when topics, partitions or leaders changed between two surveys: what was read in between is not one moment."""
    changes = [
        *(f"topic {name} appeared" for name in sorted(set(after.topics) - set(before.topics))),
        *(f"topic {name} vanished" for name in sorted(set(before.topics) - set(after.topics))),
        *(
            change
            for name in sorted(set(before.topics) & set(after.topics))
            if (change := _difference(before.topics[name], after.topics[name])) is not None
        ),
    ]
    if changes:
        raise TransientError(
            f"the application changed while the cut was read: {'; '.join(changes)}",
            next_step="run the savepoint again",
            changes=changes,
            partitions={
                name: (before.topics[name].partitions, after.topics[name].partitions)
                for name in sorted(set(before.topics) & set(after.topics))
                if before.topics[name].partitions != after.topics[name].partitions
            },
        )


def _difference(before: TopicDescription, after: TopicDescription) -> str | None:
    if before.topic_id != after.topic_id:
        return f"topic {before.name} was created again: topic id {before.topic_id} became {after.topic_id}"
    if before.partitions != after.partitions:
        return f"topic {before.name} had {before.partitions} partitions and has {after.partitions}"
    if before.leader_epochs != after.leader_epochs:
        return f"leaders of topic {before.name} changed"
    return None


def check_same_logs(recovery: RecoveryContext, draft: CutDraft) -> tuple[str, ...]:
    """Raise ``Damaged`` unless every topic of the cut is still the same, and none of its logs was cut back below the cut's end. Returns what changed
    without harm, in sentences: partitions that were added after the cut.
    """
    now = recovery.cluster.describe_topics([topic.name for topic in draft.topics])
    others = other_topics(draft.topics, now)
    if others:
        raise Damaged(
            f"the copy is not of one log: {'; '.join(others)}",
            next_step="run the savepoint again; what was created again is copied in full",
            topics=others,
            ids={
                topic.name: (topic.topic_id, now[topic.name].topic_id if topic.name in now else None)
                for topic in draft.topics
                if topic.name not in now or now[topic.name].topic_id != topic.topic_id
            },
        )
    epochs = {cut.tp: cut.leader_epoch for topic in draft.topics for cut in topic.partitions if cut.leader_epoch is not None}
    ends = recovery.cluster.epoch_ends(epochs)
    cut_back = truncated(draft.topics, ends)
    if cut_back:
        raise Damaged(
            f"logs were truncated after the cut: {'; '.join(cut_back)}",
            next_step="find out why a broker lost acknowledged records, then run the savepoint again",
            partitions=cut_back,
            ends={str(cut.tp): (ends[cut.tp], cut.end) for topic in draft.topics for cut in topic.partitions if cut.tp in ends},
        )
    return grown(draft.topics, now)


def other_topics(topics: Iterable[DraftTopic], now: Mapping[str, TopicDescription]) -> list[str]:
    """Topics of a cut that are gone, or are others under the same name, with both ids."""
    return [
        f"topic {topic.name} (id {topic.topic_id}) was deleted"
        if topic.name not in now
        else f"topic {topic.name} was created again: topic id {topic.topic_id} became {now[topic.name].topic_id}"
        for topic in topics
        if topic.name not in now or now[topic.name].topic_id != topic.topic_id
    ]


def truncated(topics: Iterable[DraftTopic], ends: Mapping[TopicPartition, int | None]) -> list[str]:
    """Partitions whose records up to the cut's leader epoch end before the cut does. ``ends`` has None where the broker cannot tell."""
    return [
        f"{cut.tp} ends at {end} for leader epoch {cut.leader_epoch}, the cut at {cut.end}"
        for topic in topics
        for cut in topic.partitions
        if (end := ends.get(cut.tp)) is not None and end < cut.end
    ]


def grown(topics: Iterable[DraftTopic], now: Mapping[str, TopicDescription]) -> tuple[str, ...]:
    """Topics that were given partitions after the cut."""
    return tuple(
        f"{topic.name} was given partitions after the cut: it has {now[topic.name].partitions}, {len(topic.partitions)} are in this savepoint"
        for topic in topics
        if now[topic.name].partitions != len(topic.partitions)
    )
