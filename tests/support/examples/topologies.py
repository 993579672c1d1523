"""Topologies as values and as Kafka Streams writes them, and savepoints that versions are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from streams_recovery.core.kafka_types import CommittedOffset, Evidence, StoreKind, TopicRole
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.rollout.described import DescribedTopology, NodeKind, Subtopology, TopologyNode
from tests.support.examples.manifests import manifest_with, partition

APPLICATION = "orders"


def rendered(topology: DescribedTopology) -> str:
    """As ``TopologyDescription#toString`` does."""
    lines = ["Topologies:"]
    for one in topology.subtopologies:
        lines.append(
            f"  {' ' if len(lines) == 1 else ''}Sub-topology: {one.number}{' for global store (will not generate tasks)' if one.is_global else ''}"
        )
        for node in one.nodes:
            after = ", ".join(other.name for other in one.nodes if node.name in other.predecessors) or "none"
            lines.append(f"    {node.kind}: {node.name} ({_has(node)})")
            lines += [] if node.kind is NodeKind.SINK else [f"      --> {after}"]
            lines += [] if node.kind is NodeKind.SOURCE else [f"      <-- {', '.join(node.predecessors) or 'none'}"]
        lines.append("")
    return "\n".join(lines) + "\n"


def _has(node: TopologyNode) -> str:
    if node.kind is NodeKind.PROCESSOR:
        return f"stores: [{', '.join(node.stores)}]"
    if node.kind is NodeKind.SOURCE:
        return f"topics: {node.pattern or '[' + ', '.join(node.topics) + ']'}"
    return f"extractor class: {node.extractor}" if node.extractor else f"topic: {node.topics[0]}"


def source(name: str, *topics: str) -> TopologyNode:
    """A source of topics."""
    return TopologyNode(name=name, kind=NodeKind.SOURCE, topics=topics)


def processor(name: str, before: Iterable[str] | str, *stores: str) -> TopologyNode:
    """A processor behind others."""
    names = (before,) if isinstance(before, str) else tuple(before)
    return TopologyNode(name=name, kind=NodeKind.PROCESSOR, stores=stores, predecessors=names)


def sink(name: str, before: str, topic: str) -> TopologyNode:
    """A sink of one topic."""
    return TopologyNode(name=name, kind=NodeKind.SINK, topics=(topic,), predecessors=(before,))


def topology(*subtopologies: Iterable[TopologyNode], is_global: Iterable[int] = ()) -> DescribedTopology:
    """With these subtopologies, numbered as they come."""
    return DescribedTopology(
        subtopologies=tuple(
            Subtopology(number=number, is_global=number in set(is_global), nodes=tuple(nodes)) for number, nodes in enumerate(subtopologies)
        )
    )


def counting(store: str, *, read: str = "in") -> DescribedTopology:
    """Counts the records of each key of an input."""
    return topology([source("read", read), processor("count", "read", store)])


def regrouping(store: str, *, through: str | None = None, read: str = "in") -> DescribedTopology:
    """Counts them by another key, through a repartition topic."""
    between = through or f"{store}-repartition"
    return topology(
        [source("read", read), processor("other-key", "read"), sink("out", "other-key", between)],
        [source("read-again", between), processor("count", "read-again", store)],
    )


def saved(
    changelogs: Mapping[str, int] | None = None,
    *,
    inputs: Mapping[str, int] | None = None,
    repartitions: Mapping[str, int] | None = None,
    unread: int = 0,
    policy: str = "compact",
    kind: StoreKind | None = None,
) -> Manifest:
    """A savepoint with changelogs of these stores and these other topics, each with so many partitions. Repartition topics were read up to their ends but for
    ``unread`` records in each of their partitions.
    """
    topics = [
        _topic(f"{APPLICATION}-{store}-changelog", TopicRole.CHANGELOG, count, {"cleanup.policy": policy}, store=kind)
        for store, count in (changelogs or {}).items()
    ]
    topics += [_topic(name, TopicRole.INPUT, count, {}) for name, count in (inputs or {"in": 2}).items()]
    topics += [
        _topic(f"{APPLICATION}-{name}", TopicRole.REPARTITION, count, {}, unread=unread) for name, count in (repartitions or {}).items()
    ]
    return replace(manifest_with(), topics=tuple(topics))


def _topic(
    name: str, role: TopicRole, count: int, config: dict[str, str], *, store: StoreKind | None = None, unread: int = 0
) -> TopicImage:
    return TopicImage(
        name=name,
        role=role,
        topic_id="id",
        replication_factor=1,
        config=config,
        in_force={},
        store=store,
        archived=False,
        full_since=0,
        evidence=Evidence.STORE if role.internal else None,
        partitions=tuple(_partition(number, unread) for number in range(count)),
    )


def _partition(number: int, unread: int) -> PartitionImage:
    at_end = CommittedOffset(offset=10 - unread, metadata="", leader_epoch=None)
    return replace(partition([], [], end=10), partition=number, committed=at_end)
