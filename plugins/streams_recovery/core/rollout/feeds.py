"""What feeds each store of a version, by which side of which joins, and through which repartition topics: the graph of a description. Pure.

Names alone do not tell: a join keeps its name, and those of its stores, when its sides are swapped. So a processor of the version before is compared with the
one that has its name, or is of its kind, and then what comes to both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from streams_recovery.core.rollout.described import DescribedTopology, NodeKind, TopologyNode, generated_base
from streams_recovery.core.words import first_names

# Processors of the DSL that read a store which another one writes, as Kafka Streams calls them.
_READERS: Final = re.compile(
    r"KSTREAM-(LEFT)?JOIN-#|K(STREAM|TABLE)-(JOIN|OUTER)(THIS|OTHER)-#|KTABLE-FK-JOIN-SUBSCRIPTION-(RESPONSE-RESOLVER-PROCESSOR|JOIN-FOREIGN)-#"
)
# Operators of the DSL behind which records may have another key.
_CHOOSING_KEYS: Final = re.compile(r"KSTREAM-(KEY-SELECT|MAP|FLATMAP|TRANSFORM|FLATTRANSFORM|PROCESSOR)-#|KTABLE-SELECT-#")
_SIDES: Final = re.compile(r"(K(?:STREAM|TABLE))-(?:JOIN|OUTER)(THIS|OTHER)-#|(KTABLE-FK-JOIN)-SUBSCRIPTION-REGISTRATION-#")
_FOREIGN: Final = "KTABLE-FK-JOIN-SUBSCRIPTION"
_COGROUP: Final = "COGROUPKSTREAM-AGGREGATE-#"
# What Kafka Streams makes of an operator's name: one ending of it, another ending that is always there too, and what it is called without a name.
_NAMED: Final = tuple(
    (re.compile(pattern), sibling, kind)
    for pattern, sibling, kind in (
        (r"(.+)-(?:this|other)-windowed", ("-this-windowed", "-other-windowed"), "KSTREAM-WINDOWED-#"),
        (r"(.+)-outer-this-join", ("-this-windowed", "-other-windowed"), "KSTREAM-OUTERTHIS-#"),
        (r"(.+)-outer-other-join", ("-this-windowed", "-other-windowed"), "KSTREAM-OUTEROTHER-#"),
        (r"(.+)-this-join", ("-this-windowed", "-other-windowed"), "KSTREAM-JOINTHIS-#"),
        (r"(.+)-other-join", ("-this-windowed", "-other-windowed"), "KSTREAM-JOINOTHER-#"),
        (r"(.+)-merge", ("-this-windowed", "-other-windowed"), "KSTREAM-MERGE-#"),
        (r"(.+)-join-this", ("-join-other",), "KTABLE-JOINTHIS-#"),
        (r"(.+)-join-other", ("-join-this",), "KTABLE-JOINOTHER-#"),
        (r"(.+)", ("-join-this", "-join-other"), "KTABLE-MERGE-#"),
        (r"(.+)-cogroup-agg-\d+", ("-cogroup-merge",), _COGROUP),
        (r"(.+)-subscription-registration-processor", ("-subscription-receive",), "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-#"),
        (r"(.+)-subscription-response-resolver", ("-subscription-receive",), "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-#"),
        (r"(.+)-subscription-join-foreign", ("-subscription-receive",), "KTABLE-FK-JOIN-SUBSCRIPTION-JOIN-FOREIGN-#"),
        (r"(.+)-result", ("-subscription-receive", "-subscription-response-resolver"), "KTABLE-FK-JOIN-OUTPUT-#"),
    )
)
_Key = tuple[int, str]


def base_of(name: str) -> str:
    """A name without the number that Kafka Streams gave it: the number says nothing of how records are grouped."""
    return generated_base(name) or name


def normal(feeds: frozenset[frozenset[str]]) -> frozenset[frozenset[str]]:
    """Feeds in which a topic that Kafka Streams has numbered is its base."""
    return frozenset(frozenset(map(base_of, feed)) for feed in feeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFront:
    """The way to a repartition topic: the ``inputs`` of its records, the operators on the way that choose their keys, each as often as it is there, and the
    processors on the way that a person named, which may do anything.
    """

    inputs: frozenset[str]
    choosing: tuple[str, ...]
    named: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """A side of a join, and the ``inputs`` that come by it."""

    join: str
    side: str
    inputs: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Feed:
    """What comes to a processor: of the topics that its subtopology reads it gets those in ``read``, from ``plain`` inputs, and through repartition topics,
    without their numbers, with what stands in front of each. ``twins`` are other topics that have the same records as one of them. ``sides`` are those of
    joins on the way. ``named`` are processors on the way behind the last topic that a person named, ``elsewhere`` those of the version that are nowhere on it.
    ``kind`` is Kafka Streams' name for such a processor, None if a person named it and its kind is unknown. ``unread`` are
    patterns that are too much to read, ``unmatched`` those that match no known topic.
    """

    name: str
    kind: str | None
    read: frozenset[str]
    plain: frozenset[str]
    fronts: Mapping[str, frozenset[TopicFront]]
    twins: Mapping[str, frozenset[str]]
    sides: tuple[JoinSide, ...]
    named: frozenset[str]
    elsewhere: frozenset[str]
    unread: frozenset[str]
    unmatched: frozenset[str]

    @property
    def only_reads(self) -> bool:
        """True when its name tells that it only reads the store."""
        return _READERS.fullmatch(self.kind or "") is not None

    @property
    def writes(self) -> bool:
        """True when its name tells that it writes to the store."""
        return self.kind is not None and not self.only_reads

    @property
    def is_cogroup(self) -> bool:
        """True for one of several inputs that are grouped together."""
        return self.kind == _COGROUP

    @cached_property
    def ways(self) -> dict[str, frozenset[str]]:
        """For each input, the topics through which its records come last."""
        found = {topic: frozenset({topic}) for topic in self.plain}
        for topic, fronts in self.fronts.items():
            for name in frozenset().union(*(front.inputs for front in fronts)):
                found[name] = found.get(name, frozenset()) | {topic} | self.twins.get(topic, frozenset())
        return found

    def goes_on_for(self, before: Feed) -> bool:
        """True when the input here is grouped as the input there before: no input of both takes another way."""
        common = before.ways.keys() & self.ways.keys()
        if not common:
            return (not before.ways or not self.ways) and (self.plain, self.fronts.keys()) == (before.plain, before.fronts.keys())
        return all(before.ways[topic] & self.ways[topic] for topic in common)

    def __str__(self) -> str:
        texts = [first_names(self.plain)] if self.plain else []
        for topic, fronts in sorted(self.fronts.items()):
            texts.append(f"{topic} (from {first_names(frozenset().union(*(front.inputs for front in fronts))) or 'nothing'})")
        return ", ".join(texts) or "nothing"


@dataclass(frozen=True, kw_only=True)
class FeedGraph:
    """A version's nodes, connected through the repartition topics ``between`` its subtopologies too. ``matching`` tells which known topics a pattern matches,
    None if that cannot be told. ``equal`` has one value for equal sets of inputs, of both versions.
    """

    topology: DescribedTopology
    between: frozenset[str]
    matching: Callable[[str], frozenset[str] | None]
    equal: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    _known: dict[_Key, Feed] = field(default_factory=dict)

    @cached_property
    def _nodes(self) -> dict[_Key, TopologyNode]:
        return {(one.number, node.name): node for one in self.topology.tasked for node in one.nodes}

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name for _, name in self._nodes)

    @cached_property
    def _sinks(self) -> dict[str, list[_Key]]:
        found: dict[str, list[_Key]] = {}
        for key, node in self._nodes.items():
            for topic in node.topics if node.kind is NodeKind.SINK else ():
                found.setdefault(topic, []).append(key)
        return found

    @cached_property
    def _before(self) -> dict[_Key, frozenset[_Key]]:
        """The nodes that each node's records come from; all of its subtopology, where an arrow leads to no node."""
        return {
            (one.number, node.name): frozenset((one.number, name) for name in node.predecessors)
            if names.issuperset(node.predecessors)
            else frozenset((one.number, name) for name in names)
            for one in self.topology.tasked
            for names in ({other.name for other in one.nodes},)
            for node in one.nodes
        }

    def _up(self, keys: Iterable[_Key], *, through: bool) -> frozenset[_Key]:
        """Nodes and all that their records come through, ``through`` repartition topics too. These sets are large, so none is kept."""
        seen, topics = set(keys), set[str]()
        ahead = list(seen)
        while ahead:
            one = ahead.pop()
            node = self._nodes[one]
            more = set(self._before[one])
            if through and node.kind is NodeKind.SOURCE:
                for topic in self.between.intersection(node.topics) - topics:
                    topics.add(topic)
                    more.update(self._sinks.get(topic, ()))
            ahead.extend(more - seen)
            seen |= more
        return frozenset(seen)

    def _topics(self, keys: Iterable[_Key]) -> frozenset[str]:
        return frozenset(topic for key in keys if self._nodes[key].kind is NodeKind.SOURCE for topic in self._nodes[key].topics)

    def _read(self, keys: Iterable[_Key]) -> frozenset[str]:
        """The inputs of the sources among these, and their patterns as ``/pattern/``, with the topics that these are known to match."""
        found = set(self._topics(keys))
        for pattern in {self._nodes[key].pattern for key in keys} - {None}:
            found.update((f"/{pattern}/", *(self.matching(str(pattern)) or ())))
        return frozenset(found)

    @cached_property
    def _kinds(self) -> dict[str, str | None]:
        """Kafka Streams' name for each kind of processor, without a number, also if its operator has a name. None if the kind cannot be told."""
        return {node.name: self._kind(node.name) for node in self._nodes.values() if node.kind is NodeKind.PROCESSOR}

    def _kind(self, name: str) -> str | None:
        base = generated_base(name)
        if base is not None:
            return base
        for pattern, siblings, kind in _NAMED:
            found = pattern.fullmatch(name)
            if found is not None and all(found[1] + ending in self._names for ending in siblings):
                return kind
        return None

    def _front(self, topic: str) -> TopicFront:
        keys = self._up(self._sinks.get(topic, ()), through=True)
        processors = [self._nodes[key] for key in keys if self._nodes[key].kind is NodeKind.PROCESSOR]
        kinds = {node.name: self._kinds[node.name] for node in processors}
        return TopicFront(
            inputs=self._read(keys) - self.between,
            choosing=tuple(sorted(kind for kind in kinds.values() if kind is not None and _CHOOSING_KEYS.fullmatch(kind))),
            named=self._own_names.intersection(kinds),
        )

    @cached_property
    def _own_names(self) -> frozenset[str]:
        """Processors that a person named, which may do anything."""
        filters = {f"{one}-filter" for one in self.between}
        return frozenset(name for name, kind in self._kinds.items() if kind is None and name not in filters)

    @cached_property
    def _fronts(self) -> dict[str, TopicFront]:
        return {topic: self._front(topic) for topic in self.between}

    @cached_property
    def _twins(self) -> dict[str, frozenset[str]]:
        """Other repartition topics with the same records, without their numbers: what stands before the filter of each is the same node."""
        ends = dict[str, frozenset[_Key]]()
        for topic in self.between:
            before = frozenset().union(*(self._before[sink] for sink in self._sinks.get(topic, ())))
            filters = {key for key in before if key[1] == f"{topic}-filter"}
            ends[topic] = (before - filters) | frozenset().union(*(self._before[key] for key in filters))
        return {
            topic: frozenset(base_of(other) for other, end in ends.items() if other != topic and end and end == ends[topic])
            for topic in self.between
        }

    @cached_property
    def _joins(self) -> dict[_Key, JoinSide]:
        """The side of a join that each processor is."""
        found = {}
        for key in self._nodes:
            side = _SIDES.fullmatch(self._kinds.get(key[1]) or "")
            if side is not None:
                inputs = self._read(self._up([key], through=True)) - self.between
                # One value for equal ones: there are many joins, each compared for each store behind it.
                found[key] = JoinSide(join=side[1] or side[3], side=side[2] or "THIS", inputs=self.equal.setdefault(inputs, inputs))
        return found

    def feeds(self, store: str) -> tuple[Feed, ...]:
        """The feed of each processor that may write to a store. Processors that only read it by their name are left out, unless there are no others."""
        number = self.topology.homes[store].number
        found = [self._feed(key) for key, node in self._nodes.items() if key[0] == number and store in node.stores]
        # One kind of processor of a join by foreign key writes to the store of its own name, and reads another table's.
        foreign = set() if (generated_base(store) or "").startswith(_FOREIGN) else {f"{_FOREIGN}-PROCESSOR-#"}
        return tuple([one for one in found if not one.only_reads and one.kind not in foreign] or found)

    def _feed(self, key: _Key) -> Feed:
        if key not in self._known:
            self._known[key] = self._fed(key)
        return self._known[key]

    def _fed(self, key: _Key) -> Feed:
        near, far = self._up([key], through=False), self._up([key], through=True)
        read = self._read(near)
        fronts: dict[str, frozenset[TopicFront]] = {}
        twins: dict[str, frozenset[str]] = {}
        for topic in read & self.between:
            fronts[base_of(topic)] = fronts.get(base_of(topic), frozenset()) | {self._fronts[topic]}
            twins[base_of(topic)] = twins.get(base_of(topic), frozenset()) | self._twins[topic]
        patterns = {str(self._nodes[one].pattern) for one in far} - {"None"}
        return Feed(
            name=key[1],
            kind=self._kinds[key[1]],
            read=self._topics(near),
            plain=read - self.between,
            fronts=fronts,
            twins=twins,
            named=self._own_names & {name for _, name in near if name != key[1]},
            elsewhere=self._own_names - {name for _, name in far},
            sides=tuple(side for one, side in self._joins.items() if one in far and one != key),
            unread=frozenset(f"/{one}/" for one in patterns if self.matching(one) is None),
            unmatched=frozenset(f"/{one}/" for one in patterns if self.matching(one) == frozenset()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedChange:
    """How a store is fed otherwise than before. ``lost`` is why its state is wrong now, None for a right one. ``doubts`` are differences of unknown meaning.
    Inputs that ``come`` feed it now too, those that are ``gone`` do no more.
    """

    lost: str | None = None
    doubts: tuple[str, ...] = ()
    come: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def compare_feeds(store: str, old: Collection[Feed], new: Collection[Feed]) -> FeedChange:
    """Compare what fed a store with what feeds it now."""
    pairs, left, fresh = _pairs(old, new)
    alike = [(was, now) for was, now in pairs if now.goes_on_for(was)]
    fed = f"it is fed by {_listed(new)}, and was fed by {_listed(old)}"
    doubts, lost = list[str](), list[str]()
    for was, now in pairs:
        if (was, now) not in alike:
            why = f"{now.name} is fed by {now}, and {'' if now.name == was.name else f'{was.name} '}was fed by {was}"
            unsure = (was.unread | was.unmatched | now.unread) if not was.ways.keys() & now.ways.keys() else frozenset()
            reads = not was.writes and not now.writes and any(one.writes for one, _ in alike)
            if unsure:
                doubts.append(f"{why}: what matches {first_names(unsure)} is not known")
            elif _only_named(was, now):
                doubts.append(
                    f"{why}: one of these names is only a number, and the operators in front are alike, but their keys are not compared"
                )
            elif reads:
                doubts.append(f"{why}: that is nothing to the store only when {now.name} does not write to it")
            else:
                lost.append(why if len(pairs) > 1 else fed)
            continue
        for why, is_lost in _inside(was, now):
            (lost if is_lost else doubts).append(why)
        if was.kind != now.kind and was.writes and now.writes:
            doubts.append(f"it is written by {now.name}, and was written by {was.name}, another kind of operator")
    own = f"{store}-repartition"
    own_moved = any(own in one.fronts for one in old) != any(own in one.fronts for one in new)
    if not pairs or ((left or fresh) and own_moved):
        lost.append(fed)
    doubts += [f"{one.name}, fed by {one}, has it too now: it may write to it" for one in fresh if not one.is_cogroup]
    come, gone = _merged(alike)
    return FeedChange(
        lost=lost[0] if lost else None,
        doubts=tuple(doubts),
        come=_named(come.union(*(one.ways for one in fresh if one.is_cogroup))),
        gone=_named(gone.union(*(one.ways for one in left if one.is_cogroup))),
    )


def _pairs(old: Collection[Feed], new: Collection[Feed]) -> tuple[list[tuple[Feed, Feed]], list[Feed], list[Feed]]:
    """Pairs of an old processor and its new one; old processors without a new one; new ones without an old one."""
    left, fresh, pairs = list(old), list(new), list[tuple[Feed, Feed]]()

    def take(fits: Callable[[Feed, Feed], bool]) -> None:
        for was in tuple(left):
            found = next((now for now in fresh if fits(was, now)), None)
            if found is not None:
                pairs.append((was, found))
                left.remove(was)
                fresh.remove(found)

    take(lambda was, now: was.name == now.name and generated_base(was.name) is None and not was.is_cogroup)
    take(lambda was, now: _kin(was, now) and was.ways == now.ways)
    take(lambda was, now: _kin(was, now) and bool(was.ways) and now.goes_on_for(was))
    take(lambda was, now: _kin(was, now) and bool(was.ways.keys() & now.ways.keys()))
    take(lambda was, now: _kin(was, now) and (not was.is_cogroup or len(old) == len(new) == 1))
    take(lambda was, now: now.ways == was.ways)
    take(lambda was, now: now.goes_on_for(was))
    # Where one processor writes to it, whatever that is called.
    if not pairs and len(old) == len(new) == 1:
        take(lambda _was, _now: True)
    return pairs, left, fresh


def _kin(was: Feed, now: Feed) -> bool:
    """True for two of one known kind, and of the same side where a name tells it."""
    sides = {found[1] for one in (was, now) if (found := re.search(r"-(this|other)-windowed$", one.name)) is not None}
    return was.kind is not None and was.kind == now.kind and len(sides) < len((was, now))


def _inside(was: Feed, now: Feed) -> Iterable[tuple[str, bool]]:
    """Differences on the way to a processor that has the inputs it had, each with whether that loses what the store has."""
    for topic in sorted(was.fronts.keys() & now.fronts.keys()):
        before, after = ({(front.choosing, front.named) for front in side.fronts[topic]} for side in (was, now))
        (choosing, named), (chooses, names) = (min(one, key=lambda front: (front[0], sorted(front[1]))) for one in (before, after))
        if len(before) == len(after) == 1 and named == names and bool(choosing) != bool(chooses):
            yield (
                f"the key of what goes through {topic} is {'chosen by an operator now' if chooses else 'not chosen by an operator any more'}",
                True,
            )
        elif before != after:
            yield f"there are other operators in front of {topic} than before, which may choose another key", False
    behind, instead = was.named & now.elsewhere, now.named & was.elsewhere
    if behind and instead:
        yield (
            f"it comes through {first_names(instead)} now and not through {first_names(behind)} any more, and both versions have both",
            False,
        )
    if Counter(was.sides) == Counter(now.sides):
        return
    common = was.ways.keys() & now.ways.keys()
    old, new = (
        Counter((one.join, one.side, frozenset(one.inputs & common)) for one in side.sides if one.inputs & common) for side in (was, now)
    )
    if old - new and new - old:
        names = frozenset().union(*(inputs for _, _, inputs in (old - new)))
        yield f"{first_names(_named(names) or names)} comes by another side of a join than before", True
    elif old != new:
        yield f"there is a join {'more' if new - old else 'less'} on the way to it than before", False
    else:
        gone, come = ({(one.join, one.side): one.inputs for one in side.sides if not one.inputs & common} for side in (was, now))
        for key in sorted(gone.keys() & come.keys()):
            yield f"what is joined on the way to it is {first_names(come[key])}, and was {first_names(gone[key])}", True


def _only_named(was: Feed, now: Feed) -> bool:
    """True where what takes another way goes through a repartition topic that only was given a name, or lost it: in front are the same operators."""
    common = was.ways.keys() & now.ways.keys()
    for topic in common:
        if was.ways[topic] & now.ways[topic]:
            continue
        old, new = ({name for name, fronts in one.fronts.items() if any(topic in front.inputs for front in fronts)} for one in (was, now))
        before, after = (
            {(front.choosing, front.named) for name in names for front in one.fronts[name]} for one, names in ((was, old), (now, new))
        )
        numbered = [{"#" in name for name in names} for names in (old, new)]
        if topic in was.plain | now.plain or before != after or numbered not in ([{True}, {False}], [{False}, {True}]):
            return False
    return bool(common)


def _merged(alike: Collection[tuple[Feed, Feed]]) -> tuple[frozenset[str], frozenset[str]]:
    old, new = (frozenset().union(*(pair[at].ways for pair in alike)) for at in (0, 1))
    return new - old, old - new


def _named(inputs: frozenset[str]) -> frozenset[str]:
    """Without patterns: what is known to match one is there by name."""
    return frozenset(one for one in inputs if not one.startswith("/"))


def _listed(feeds: Collection[Feed]) -> str:
    return " and by ".join(sorted(map(str, feeds))) or "nothing"
