"""What the coordinator of a group of the streams protocol knows of its topology. All of it only where the broker has a plugin for that (KIP-1331)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from streams_recovery.core.rollout.described import DescribedTopology, NodeKind, Subtopology, TopologyNode
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.group_messages import message_of, subtopologies

_SOURCE, _PROCESSOR, _SINK = 1, 2, 3
_NODE_KINDS: Final = {_SOURCE: NodeKind.SOURCE, _PROCESSOR: NodeKind.PROCESSOR, _SINK: NodeKind.SINK}
_NOT_SAID: Final = "not said"


class KnownTopology(NamedTuple):
    """What a coordinator tells of a group: its changelogs, and with a broker's plugin for topologies (KIP-1331) the whole of it."""

    changelogs: frozenset[str]
    described: DescribedTopology | None


def known_topology(clients: Clients, group_id: str) -> KnownTopology:
    """What the coordinator knows of the topology of a group of the streams protocol; nothing of any other group."""
    found = clients.patiently(
        f"asking for the topology of group {group_id}",
        lambda: message_of(clients, "streams", group_id, include_topology_description=True),
    )
    changelogs = (topic.name for part in subtopologies(found) for topic in part.state_changelog_topics)
    description = getattr(found, "topology_description", None)
    return KnownTopology(changelogs=frozenset(changelogs), described=None if description is None else _as_described(description))


def _as_described(description: Any) -> DescribedTopology | None:
    parts = [(one.nodes, False) for one in description.subtopologies]
    parts += [((one.source, one.processor), True) for one in description.global_stores]
    found = (Subtopology(number=number, is_global=is_global, nodes=_nodes(nodes)) for number, (nodes, is_global) in enumerate(parts))
    return DescribedTopology(subtopologies=tuple(found)) if parts else None


def _nodes(description: Sequence[Any]) -> tuple[TopologyNode, ...]:
    return tuple(
        TopologyNode(
            name=node.name,
            kind=_NODE_KINDS.get(node.node_type, NodeKind.PROCESSOR),
            topics=(*node.source_topics, *([node.sink_topic] if node.sink_topic else ())),
            stores=tuple(node.stores),
            # A sink without a topic chooses one for each record, and a source without one reads by a pattern: the message has neither.
            extractor=_NOT_SAID if node.node_type == _SINK and not node.sink_topic else None,
            pattern=_NOT_SAID if node.node_type == _SOURCE and not node.source_topics else None,
            predecessors=tuple(one.name for one in description if node.name in one.successors),
        )
        for node in description
    )
