"""The text of ``Topology#describe()`` as values: which topics a version of an application reads and writes, and which stores are where. Pure.

It is the same in Kafka Streams 3.7.2, 3.9.1, 4.0.1, 4.3.1 and 4.4.0 (``TopologyDescription#toString``). It has no changelogs, no numbers of partitions
and no kinds of stores, and its repartition topics stand there without the application id. The text is not trusted: its size, lines and names are bounded.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.codec import Unusable, parsed
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.names import is_name

MOST_BYTES: Final = 8 << 20
# The largest real ones have some thousands. Each processor with a store is followed back to what feeds it.
_MOST_LINES: Final = 20_000
_LONGEST_LINE: Final = 100_000
_BEGIN: Final = "Topologies:"
_SUBTOPOLOGY: Final = re.compile(r"Sub-topology: (\d{1,9})( for global store \(will not generate tasks\))?")
# Names of processors may have anything in them, brackets too: what is in the last pair belongs to the node.
_NODE: Final = re.compile(r"(Source|Processor|Sink): (.+) \((topics|stores|topic|extractor class): (.*)\)")
_GENERATED: Final = re.compile(r"(.*-STATE-STORE-|(?:COGROUP)?K(?:STREAM|TABLE)-[A-Z][A-Z-]*-)(\d{10})(.*)")
# Parts of a pattern that are read here: plain characters, sets of them, choices between plain words, and a few places where anything may stand.
_PLAIN: Final = r"[A-Za-z0-9_-]|\\\.|\."
_ANYTHING: Final = re.compile(r"(?:\.|\[[A-Za-z0-9_-]+\])[*+]")
_READABLE: Final = re.compile(rf"\^?(?:{_PLAIN}|\[[A-Za-z0-9_-]+\][*+]?|\.[*+]|\((?:{_PLAIN})+(?:\|(?:{_PLAIN})+)*\))+\$?")
_MOST_ANYTHING: Final = 2
_LONGEST_PATTERN: Final = 500
_NEXT: Final = "hand over what Topology#describe() prints, whole and as it is: the endpoint GET /topology has it, and System.out.print(topology.describe())"


class NodeKind(enum.StrEnum):
    """Kind of a node of a topology, as the text calls it."""

    SOURCE = "Source"
    PROCESSOR = "Processor"
    SINK = "Sink"


_HAS: Final = {
    (NodeKind.SOURCE, "topics"), (NodeKind.PROCESSOR, "stores"), (NodeKind.SINK, "topic"), (NodeKind.SINK, "extractor class"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNode:
    """A source with its topics or its ``pattern``, a processor with its stores, or a sink with its topic, or without one where the ``extractor`` chooses it
    for each record. ``predecessors`` are names of nodes of the same subtopology.
    """

    name: str
    kind: NodeKind
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    pattern: str | None = None
    extractor: str | None = None
    predecessors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """Nodes that are connected. Each partition of what it reads is a task. One that ``is_global`` has no tasks: each instance reads its topic whole."""

    number: int
    is_global: bool
    nodes: tuple[TopologyNode, ...]

    def of(self, kind: NodeKind) -> tuple[TopologyNode, ...]:
        """Its nodes of a kind."""
        return tuple(node for node in self.nodes if node.kind is kind)

    @property
    def read(self) -> frozenset[str]:
        """Topics that it reads by name."""
        return frozenset(topic for node in self.of(NodeKind.SOURCE) for topic in node.topics)

    @property
    def has_pattern(self) -> bool:
        """True when it reads topics by a pattern: which ones only the cluster knows."""
        return any(node.pattern is not None for node in self.nodes)

    @property
    def stores(self) -> frozenset[str]:
        """Stores of its processors."""
        return frozenset(store for node in self.nodes for store in node.stores)

    def above(self, node: TopologyNode) -> tuple[TopologyNode, ...]:
        """A node and all that its records come through; where an arrow leads to no node, all nodes of the subtopology."""
        by_name = {one.name: one for one in self.nodes}
        ahead, seen = [node], {node.name}
        while ahead:
            for name in ahead.pop().predecessors:
                if name not in by_name:
                    return self.nodes
                if name not in seen:
                    seen.add(name)
                    ahead.append(by_name[name])
        return tuple(one for one in self.nodes if one.name in seen)

    def fed_by(self, node: TopologyNode) -> frozenset[str]:
        """Topics of the sources above a node; where an arrow leads to no node, all that the subtopology reads."""
        return frozenset(topic for one in self.above(node) if one.kind is NodeKind.SOURCE for topic in one.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopology:
    """A version of an application, as it describes itself."""

    subtopologies: tuple[Subtopology, ...]

    @property
    def tasked(self) -> tuple[Subtopology, ...]:
        """Subtopologies with tasks: all but the global ones."""
        return tuple(one for one in self.subtopologies if not one.is_global)

    @property
    def homes(self) -> dict[str, Subtopology]:
        """The subtopology of each store that belongs to tasks."""
        return {store: one for one in self.tasked for store in one.stores}

    @property
    def global_stores(self) -> frozenset[str]:
        """Stores that are read from a topic at every start."""
        return frozenset(store for one in self.subtopologies if one.is_global for store in one.stores)

    @property
    def read(self) -> frozenset[str]:
        """Topics that its tasks read by name."""
        return frozenset().union(*(one.read for one in self.tasked))

    @property
    def written(self) -> frozenset[str]:
        """Topics that its sinks name."""
        return frozenset(topic for one in self.subtopologies for node in one.of(NodeKind.SINK) for topic in node.topics)

    @property
    def patterns(self) -> frozenset[str]:
        """Patterns by which its tasks read topics."""
        return frozenset(node.pattern for one in self.tasked for node in one.nodes if node.pattern is not None)

    @property
    def has_pattern(self) -> bool:
        """True when some topics are read by a pattern."""
        return bool(self.patterns)

    def feeds(self, store: str) -> frozenset[frozenset[str]]:
        """For each processor with this store, the topics of the sources above it. The text does not say which of them write to the store."""
        home = self.homes[store]
        return frozenset(home.fed_by(node) for node in home.nodes if store in node.stores)


def generated_base(name: str) -> str | None:
    """A name that Kafka Streams has numbered, without its number, None for a name that a person gave. The number changes with what stands before it."""
    found = _GENERATED.fullmatch(name)
    return None if found is None else f"{found[1]}#{found[3]}"


def matched(pattern: str, names: Collection[str]) -> frozenset[str] | None:
    """The names that a pattern matches whole, None for a pattern that is not simple: one from a text may take for ever, or mean something else in Java."""
    if len(pattern) > _LONGEST_PATTERN or _READABLE.fullmatch(pattern) is None or len(_ANYTHING.findall(pattern)) > _MOST_ANYTHING:
        return None
    try:
        return frozenset(name for name in names if re.fullmatch(pattern, name) is not None)
    except re.error:
        return None


def described(data: bytes) -> DescribedTopology:
    """The topology of a text, or of an answer of ``GET /topology``, a JSON object with the text in its field ``topology``. Lines before the description, such
    as those of a logger, are passed over. Raises ``ConfigInvalid`` for anything else.
    """
    if len(data) > MOST_BYTES:
        raise _unusable(f"it has {len(data):,} bytes, the limit is {MOST_BYTES:,}")
    if data.lstrip().startswith(b"{"):
        try:
            answer = parsed(data, most_bytes=MOST_BYTES)
        except Unusable as error:
            raise _unusable(str(error)) from error
        if not isinstance(answer, dict) or not isinstance(answer.get("topology"), str):
            raise _unusable("it is JSON without a field topology that is a text")
        text = answer["topology"]
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise _unusable(f"it is not UTF-8, at byte {error.start}") from error
    lines = text.split("\n")
    if len(lines) > _MOST_LINES or max(map(len, lines)) > _LONGEST_LINE:
        raise _unusable(f"it has more than {_MOST_LINES:,} lines, or one of more than {_LONGEST_LINE:,} characters")
    return DescribedTopology(subtopologies=tuple(_subtopologies(lines)))


def _subtopologies(lines: list[str]) -> Iterator[Subtopology]:
    begins = [number for number, line in enumerate(lines) if line.rstrip() == _BEGIN]
    if len(begins) != 1:
        what = "no line" if not begins else f"{len(begins)} lines"
        raise _unusable(f"it has {what} {_BEGIN!r} (a topology with a name of its own is not read)")
    blocks: list[tuple[int, bool, list[TopologyNode]]] = []
    for number, line in enumerate(lines[begins[0] + 1 :], begins[0] + 2):
        text = line.strip()
        if text:
            _take(text, number, blocks)
    if not any(nodes for _, _, nodes in blocks):
        raise _unusable("it has no source, no processor and no sink")
    numbers = [number for number, _, _ in blocks]
    if len(set(numbers)) < len(numbers):
        raise _unusable("two subtopologies have one number")
    for number, is_global, nodes in blocks:
        if not any(node.kind is NodeKind.SOURCE for node in nodes):
            raise _unusable(f"subtopology {number} reads nothing")
        if len({node.name for node in nodes}) < len(nodes):
            raise _unusable(f"two nodes of subtopology {number} have one name")
        yield Subtopology(number=number, is_global=is_global, nodes=tuple(nodes))


def _take(text: str, number: int, blocks: list[tuple[int, bool, list[TopologyNode]]]) -> None:
    heading, node = _SUBTOPOLOGY.fullmatch(text), _NODE.fullmatch(text)
    if heading is not None:
        blocks.append((int(heading[1]), heading[2] is not None, []))
    elif not blocks:
        raise _wrong_line(number, text)
    elif node is not None:
        kind = NodeKind(node[1])
        if (kind, node[3]) not in _HAS:
            raise _wrong_line(number, text)
        blocks[-1][2].append(_node(kind, node[2], node[3], node[4]))
    elif text.startswith("-->"):
        # What is behind a node says so itself, in the line of what is before it.
        return
    elif text.startswith("<--") and blocks[-1][2]:
        nodes, names = blocks[-1][2], text.removeprefix("<--").strip()
        nodes[-1] = replace(nodes[-1], predecessors=() if names == "none" else tuple(names.split(", ")))
    else:
        raise _wrong_line(number, text)


def _node(kind: NodeKind, name: str, has: str, text: str) -> TopologyNode:
    if has == "extractor class":
        return TopologyNode(name=name, kind=kind, extractor=text)
    if has == "topic":
        return TopologyNode(name=name, kind=kind, topics=_names(kind, name, [text]))
    listed = text[1:-1].split(", ") if text.startswith("[") and text.endswith("]") else None
    if has == "stores":
        if listed is None:
            raise _unusable(f"the stores of {name} are no list")
        return TopologyNode(name=name, kind=kind, stores=_names(kind, name, [] if listed == [""] else listed))
    # A pattern stands where the list of topics would, and may begin like one: "[a-c]+.x".
    if listed is None or not all(map(is_name, listed)):
        return TopologyNode(name=name, kind=kind, pattern=text)
    return TopologyNode(name=name, kind=kind, topics=tuple(listed))


def _names(kind: NodeKind, name: str, names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(names)
    for one in found:
        if not is_name(one):
            raise _unusable(f"{one[:60]!r} of {kind.lower()} {name[:100]!r} is no name of a store or topic")
    return found


def _wrong_line(number: int, text: str) -> ConfigInvalid:
    return _unusable(f"line {number} is {text[:100]!r}")


def _unusable(why: str) -> ConfigInvalid:
    return ConfigInvalid(f"this is no description of a topology: {why}", next_step=_NEXT, why=why)
