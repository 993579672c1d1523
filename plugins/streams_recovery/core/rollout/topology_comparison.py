"""Compares a savepoint with the description of a new version's topology: can the new version go on with what the savepoint has? Pure.

Kafka Streams says nothing when it cannot: a store whose changelog is called otherwise begins empty, and a store whose input is grouped by another key goes
on with counts of the old one. What a description does not show is named in ``not_compared``, never taken for equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from streams_recovery.core.kafka_types import WINDOWED, StoreKind, TopicRole
from streams_recovery.core.names import internal_role, store_name
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rollout.compatibility import (
    ALLOW_DOUBT,
    SAME,
    Compatibility,
    CompatibilityFinding,
    CompatibilityVerdict,
    SavedTopic,
    StoreFacts,
    TopologyDifference,
    saved_topics,
)
from streams_recovery.core.rollout.described import DescribedTopology, Subtopology, generated_base, matched
from streams_recovery.core.rollout.feeds import FeedChange, FeedGraph, compare_feeds, normal
from streams_recovery.core.words import first_names


def compare(
    application_id: str,
    manifest: Manifest,
    new: DescribedTopology,
    stores: Mapping[str, StoreFacts],
    *,
    before: DescribedTopology | None = None,
) -> Compatibility:
    """The compatibility of a savepoint's content with the new version. ``stores`` are those of the configuration of the new version, ``before`` the description
    of the savepoint's own version, None if it was not given.
    """
    texts = [new] if before is None else [new, before]
    named = {f"{application_id}-{name}" for one in texts for name in (*one.read, *(f"{store}-changelog" for store in one.homes))}
    doubtful = set(manifest.unattributed) - named
    topics = tuple(topic for topic in saved_topics(manifest) if topic.name not in doubtful)
    side = _Comparison(
        application_id=application_id, saved={topic.name: topic for topic in topics}, new=new, configured=stores, before=before
    )
    if doubtful:
        side.unclear.append(f"{first_names(doubtful)}, which may be another application's")
    findings = [*side.stores(), *side.repartitions(), *side.inputs(), *side.numbers()]
    counts = {
        role.value: sum(1 for topic in topics if topic.role is role)
        for role in (TopicRole.CHANGELOG, TopicRole.REPARTITION, TopicRole.INPUT)
    }
    order = sorted(findings, key=lambda found: (-found.verdict.rank, found.kind, found.subject))
    return Compatibility(
        application_id=application_id,
        savepoint_id=manifest.savepoint_id,
        findings=tuple(order),
        not_compared=tuple(side.not_compared()),
        compared=counts,
    )


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    application_id: str
    saved: Mapping[str, SavedTopic]
    new: DescribedTopology
    configured: Mapping[str, StoreFacts]
    before: DescribedTopology | None
    unclear: list[str] = field(default_factory=list)
    equal: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    # -- what both sides have

    @cached_property
    def graph(self) -> FeedGraph:
        """What feeds the stores of the new version."""
        return self._graph(self.new)

    @cached_property
    def old_graph(self) -> FeedGraph | None:
        """What feeds those of the version before."""
        return None if self.before is None else self._graph(self.before)

    def _graph(self, topology: DescribedTopology) -> FeedGraph:
        inputs = [name for name, one in self.saved.items() if one.role is TopicRole.INPUT]
        return FeedGraph(
            topology=topology, between=self._internal(topology), matching=cache(lambda pattern: matched(pattern, inputs)), equal=self.equal
        )

    @cached_property
    def changelogs(self) -> dict[str, SavedTopic]:
        """Changelogs of the savepoint, by store."""
        return {store_name(name, self.application_id): one for name, one in self.saved.items() if one.role is TopicRole.CHANGELOG}

    def facts(self, store: str) -> StoreFacts:
        return self.configured.get(store, StoreFacts())

    @cached_property
    def logged(self) -> dict[str, Subtopology]:
        """Stores of the new version that are restored from a changelog of their own."""
        return {name: home for name, home in self.new.homes.items() if self.facts(name).logged and self.facts(name).source is None}

    def _internal(self, topology: DescribedTopology) -> frozenset[str]:
        """Its repartition topics, as the text has them: what it writes and reads, with a name that only Kafka Streams gives."""
        inputs = {name for name, one in self.saved.items() if not one.role.internal}
        return frozenset(
            topic
            for topic in (topology.read & topology.written) - inputs
            if internal_role(self._full(topic), self.application_id) is TopicRole.REPARTITION
        )

    def _full(self, topic: str) -> str:
        return f"{self.application_id}-{topic}"

    @cached_property
    def kept_repartitions(self) -> dict[str, SavedTopic]:
        """Repartition topics of the savepoint, as a description calls them."""
        return {name.removeprefix(f"{self.application_id}-"): one for name, one in self.saved.items() if one.role is TopicRole.REPARTITION}

    def _topic(self, name: str) -> SavedTopic | None:
        return self.saved.get(name) or self.kept_repartitions.get(name)

    @cached_property
    def fresh(self) -> frozenset[str]:
        """Repartition topics that only the new version has."""
        return self._internal(self.new) - self.kept_repartitions.keys()

    @cached_property
    def gone(self) -> frozenset[str]:
        """Repartition topics that only the savepoint has."""
        return frozenset(self.kept_repartitions) - self.new.read

    def _moved(self, topic: str, others: Iterable[str]) -> str | None:
        """The topic among ``others`` that differs only by the number that Kafka Streams has given it."""
        base = generated_base(topic)
        return None if base is None else next((one for one in sorted(others) if generated_base(one) == base), None)

    # -- stores

    def stores(self) -> Iterable[CompatibilityFinding]:
        logged, changelogs = self.logged, self.changelogs
        gone, fresh = changelogs.keys() - logged.keys(), logged.keys() - changelogs.keys()
        known = frozenset() if self.before is None else self.before.homes.keys() | self.before.global_stores
        for store in sorted(changelogs.keys() & logged.keys()):
            if self.before is None or store in known:
                yield from self._same_name(store, gone, fresh)
            else:
                yield self._left_behind(store)
        taken = set[str]()
        for store in sorted(gone):
            candidates = () if self._is_elsewhere(store) else self._candidates(store, fresh - known)
            taken.update(candidates)
            yield self._gone(store, candidates)
        for store in sorted(fresh & known):
            yield CompatibilityFinding(
                verdict=CompatibilityVerdict.LOST,
                kind=TopologyDifference.NO_CHANGELOG,
                subject=store,
                text=f"store {store} was in the version before, and the savepoint has no changelog of it: it took its content from elsewhere, and begins empty",
                remedy="let it take its content from there again (topology.optimization, a global table; stores.<name>.source), or rebuild the state from "
                "the inputs",
            )
        for store in sorted(fresh - taken - known):
            yield CompatibilityFinding(
                verdict=CompatibilityVerdict.COMPATIBLE,
                kind=TopologyDifference.NEW_STORE,
                subject=store,
                text=f"store {store} is new, and begins empty: what the inputs held before the savepoint is not in it",
                remedy="rebuild the state from the inputs if it is to be",
            )
        for store in sorted(self.new.homes):
            if not self.facts(store).logged:
                yield CompatibilityFinding(
                    verdict=CompatibilityVerdict.COMPATIBLE,
                    kind=TopologyDifference.NOT_LOGGED,
                    subject=store,
                    text=f"store {store} has no changelog (stores.{store}.logged), and begins empty at every start on another machine",
                    remedy="",
                )

    def _left_behind(self, store: str) -> CompatibilityFinding:
        return CompatibilityFinding(
            verdict=CompatibilityVerdict.LOST,
            kind=TopologyDifference.LEFT_BEHIND,
            subject=store,
            text=f"store {store} is not in the version before, so its changelog is one that an earlier version has left: it has nothing of the input since, "
            "and the new version would go on with it",
            remedy="give the new store another name, or delete that changelog while the application is down, and rebuild the state from the inputs",
        )

    def _is_elsewhere(self, store: str) -> bool:
        """True when the new version has the store, and takes its content from elsewhere than a changelog."""
        return store in self.new.homes or store in self.new.global_stores

    def _gone(self, store: str, candidates: tuple[str, ...]) -> CompatibilityFinding:
        changelog = self.changelogs[store].name
        if self._is_elsewhere(store):
            source = self.facts(store).source
            why = (
                "is global there" if store in self.new.global_stores else f"is restored from {source}" if source else "is not logged there"
            )
            return CompatibilityFinding(
                verdict=CompatibilityVerdict.LOST
                if not self.facts(store).logged and store not in self.new.global_stores
                else CompatibilityVerdict.ORPHANED,
                kind=TopologyDifference.CHANGELOG_UNUSED,
                subject=store,
                text=f"store {store} {why}, so nothing reads its changelog {changelog} any more",
                remedy="delete the topic when no version that needs it will come back",
            )
        if not candidates:
            return CompatibilityFinding(
                verdict=CompatibilityVerdict.ORPHANED,
                kind=TopologyDifference.STORE_GONE,
                subject=store,
                text=f"store {store} is not in the new version, and no new store is like it: its changelog {changelog} stays behind",
                remedy="delete the topic when no version that needs it will come back",
            )
        numbered = generated_base(store) is not None and all(generated_base(one) == generated_base(store) for one in candidates)
        first = candidates[0]
        return CompatibilityFinding(
            verdict=CompatibilityVerdict.RENAME,
            kind=TopologyDifference.NUMBER_MOVED if numbered else TopologyDifference.STORE_RENAMED,
            subject=store,
            text=f"store {store} is not in the new version, and {' or '.join(candidates)} is new there and like it: it would begin empty beside {changelog}"
            + (": the number changes with every operator before it" if numbered else ""),
            remedy=f'call it Materialized.as("{store}") in the new version'
            + (", as long as nothing else has this name" if numbered else f"; if {first} is another store, say that {store} may go"),
            candidates=candidates,
        )

    def _candidates(self, store: str, fresh: Collection[str]) -> tuple[str, ...]:
        """New stores that could be this one under another name: of its shape, as far as that is known."""
        base = generated_base(store)
        alike = [one for one in sorted(fresh) if self._alike(store, one)]
        same = [one for one in alike if base is not None and generated_base(one) == base]
        return tuple(same or alike)

    def _alike(self, old: str, new: str) -> bool:
        saved, facts, tasks = self.changelogs[old], self.facts(new), self._tasks(self.new.homes[new])
        if tasks is not None and tasks != saved.partitions:
            return False
        if facts.kind not in (None, StoreKind.UNKNOWN) and saved.windowed is not None and (facts.kind in WINDOWED) != saved.windowed:
            return False
        if self.before is None or old not in self.before.homes:
            return True
        return bool(normal(self.before.feeds(old)) & normal(self.new.feeds(new)))

    def _same_name(self, store: str, gone: Collection[str], fresh: Collection[str]) -> Iterable[CompatibilityFinding]:
        yield from self._grouping(store)
        yield from self._number_reused(store, gone, fresh)
        yield from self._partitions(store)
        saved, kind = self.changelogs[store], self.facts(store).kind
        if kind in (None, StoreKind.UNKNOWN):
            return
        if (saved.kind is not None and saved.kind is not kind) or (saved.windowed is not None and (kind in WINDOWED) != saved.windowed):
            was = saved.kind.value if saved.kind is not None else "a store with windows" if saved.windowed else "a store without windows"
            yield CompatibilityFinding(
                verdict=CompatibilityVerdict.LOST,
                kind=TopologyDifference.KIND_CHANGED,
                subject=store,
                text=f"store {store} is of kind {kind} in the configuration, and its changelog is that of {was}: its keys and values would be read wrongly",
                remedy="give the new store another name, and rebuild the state from the inputs",
            )

    def _grouping(self, store: str) -> Iterable[CompatibilityFinding]:
        old = self.old_graph
        if old is None or store not in old.topology.homes:
            change = FeedChange(lost=self._regrouped(store))
        else:
            change = compare_feeds(store, old.feeds(store), self.graph.feeds(store))
        if change.lost is not None:
            yield CompatibilityFinding(
                verdict=CompatibilityVerdict.LOST,
                kind=TopologyDifference.GROUPING_CHANGED,
                subject=store,
                text=f"store {store} kept its name, but {change.lost}: what its changelog has is of the version before, and the new version would add to it",
                remedy="give the store another name, and rebuild the state from the inputs; or feed and group it as before",
            )
            return
        for why in change.doubts:
            yield CompatibilityFinding(
                verdict=CompatibilityVerdict.DOUBT,
                kind=TopologyDifference.FEED_UNCLEAR,
                subject=store,
                text=f"store {store} may be fed otherwise: {why}",
                remedy=f"compare the two programs there; say {ALLOW_DOUBT} when the store goes on as it is, give it another name when it does not",
            )
        for names, kind, text in (
            (change.come, TopologyDifference.NEW_INPUT, "is fed by {} now too: it has nothing of what was there before the savepoint"),
            (change.gone, TopologyDifference.INPUT_GONE, "is not fed by {} any more: what it has of it stays"),
        ):
            if names:
                yield CompatibilityFinding(
                    verdict=CompatibilityVerdict.COMPATIBLE,
                    kind=kind,
                    subject=store,
                    text=f"store {store} {text.format(first_names(names))}",
                    remedy="rebuild the state from the inputs if that is not meant",
                )

    def _regrouped(self, store: str) -> str | None:
        feeds = frozenset(feed.read for feed in self.graph.feeds(store))
        fresh = {topic for topic in self.fresh if self._moved(topic, self.gone) is None}
        known = self.saved.keys() | self.kept_repartitions.keys()
        # What also comes as it did before is not grouped otherwise: something was merged in.
        through = [frozenset() if feed & known else feed & fresh for feed in feeds]
        own = self._own(store)
        if any(own in feed & fresh for feed in feeds):
            return f"its input goes through {own} now, a repartition topic that the savepoint does not have"
        if all(through):
            return f"its input goes through {first_names(frozenset().union(*through))} now, a repartition topic that the savepoint does not have"
        if any(feed & fresh for feed in feeds):
            self.unclear.append(f"what writes to store {store}: some of the processors that have it are fed by new repartition topics")
        if own in self.gone:
            if not any(feed & self._internal(self.new) for feed in feeds):
                return f"its input does not go through the repartition topic {self._full(own)} any more"
            self.unclear.append(
                f"what writes to store {store}: {self._full(own)} is gone, and another repartition topic may have its records now"
            )
        return None

    @staticmethod
    def _own(store: str) -> str:
        """Kafka Streams' name of the repartition topic of what writes to a store, unless the program names it. Nothing that only reads the store has it."""
        return f"{store}-repartition"

    def _number_reused(self, store: str, gone: Collection[str], fresh: Collection[str]) -> Iterable[CompatibilityFinding]:
        """A numbered name that stayed, while others of its kind moved, may be another store's now."""
        base = generated_base(store)
        if base is None:
            return
        moved = sorted(one for one in (*gone, *fresh) if generated_base(one) == base and self._may_be(one, store))
        if moved:
            yield CompatibilityFinding(
                verdict=CompatibilityVerdict.RENAME,
                kind=TopologyDifference.NUMBER_REUSED,
                subject=store,
                text=f"store {store} has a name that Kafka Streams numbered, and others of its kind came or went ({first_names(moved)}): it may be another "
                "store now, and would go on with that one's content",
                remedy=f"give each store in the new version the name that its state has, with Materialized.as; say {SAME} {store} when it is the same store",
            )

    def _is_one_of_several(self, store: str) -> bool:
        """True for a store with a numbered name that may have changed places with another one of its kind: nothing in a description would show that."""
        base = generated_base(store)
        if base is None or self.before is None:
            return base is not None
        return any(other != store and generated_base(other) == base and self._may_be(other, store) for other in self.new.homes)

    def _may_be(self, other: str, store: str) -> bool:
        """True unless both versions describe what fed these stores, and it is not the same."""
        if self.before is None or store not in self.before.homes:
            return True
        feeds = self.before.feeds(other) if other in self.before.homes else self.new.feeds(other) if other in self.new.homes else None
        return feeds is None or bool(normal(feeds) & normal(self.new.feeds(store)))

    # -- partitions

    def _tasks(self, home: Subtopology) -> int | None:
        """Tasks of a subtopology, None if the number depends on a topic that is not known."""
        known = [self._topic(topic) for topic in home.read]
        if home.has_pattern or not known or any(one is None for one in known):
            return None
        return max(one.partitions for one in known if one is not None)

    def _partitions(self, store: str) -> Iterable[CompatibilityFinding]:
        saved, home = self.changelogs[store], self.new.homes[store]
        tasks = self._tasks(home)
        known = [one.partitions for topic in home.read if (one := self._topic(topic)) is not None]
        at_least = max(known, default=0)
        if tasks == saved.partitions or (tasks is None and at_least <= saved.partitions):
            return
        yield CompatibilityFinding(
            verdict=CompatibilityVerdict.LOST,
            kind=TopologyDifference.PARTITIONS_DIFFER,
            subject=store,
            text=f"store {store} belongs to {'' if tasks is not None else 'at least '}{at_least} tasks in the new version, the partitions of "
            f"{first_names(home.read)}, and its changelog has {saved.partitions}: Kafka Streams refuses to start",
            remedy="read topics with as many partitions as before, rescale the application (command `rescale`), or give the store another name and rebuild its "
            "state from the inputs",
        )

    # -- topics

    def repartitions(self) -> Iterable[CompatibilityFinding]:
        for topic in sorted(self.gone):
            saved = self.kept_repartitions[topic]
            moved = self._moved(topic, self.fresh)
            to = f"; the new version has {moved} in its place" if moved is not None else ""
            name = " Give it a name (Grouped.as, Repartitioned.as) before the next change." if moved is not None else ""
            if saved.unread:
                yield CompatibilityFinding(
                    verdict=CompatibilityVerdict.LOST,
                    kind=TopologyDifference.UNREAD_LOST,
                    subject=topic,
                    text=f"nothing reads {saved.name} any more, and {saved.unread} records in it were not processed at the savepoint{to}",
                    remedy=f"let the running version work them off before it stops, with its inputs held, and take a savepoint then.{name}",
                )
            else:
                yield CompatibilityFinding(
                    verdict=CompatibilityVerdict.ORPHANED,
                    kind=TopologyDifference.REPARTITION_GONE,
                    subject=topic,
                    text=f"nothing reads the repartition topic {saved.name} any more{to}. All of it was processed at the savepoint",
                    remedy=f"look at what it fed: a store that kept its name and is grouped otherwise has lost its state.{name}",
                )

    def inputs(self) -> Iterable[CompatibilityFinding]:
        saved = {name for name, one in self.saved.items() if one.role is TopicRole.INPUT}
        read = frozenset().union(*(one.read for one in self.new.subtopologies))
        for topic in sorted(saved - read):
            unread = [pattern for pattern in sorted(self.new.patterns) if matched(pattern, [topic]) is None]
            if any(matched(pattern, [topic]) for pattern in self.new.patterns) or (unread and self.before is None):
                continue
            if unread and self.before is not None:
                if topic in self.before.read or not self.before.patterns.issuperset(unread):
                    yield _perhaps_not_read(topic, unread)
                continue
            yield CompatibilityFinding(
                verdict=CompatibilityVerdict.ORPHANED,
                kind=TopologyDifference.INPUT_GONE,
                subject=topic,
                text=f"the new version does not read {topic}: what comes there after the savepoint is not processed",
                remedy="take it out of topics.inputs when that is meant",
            )
        for topic in sorted(self.new.read - saved - self._internal(self.new)):
            if self._full(topic) not in self.saved and topic not in self.saved:
                yield CompatibilityFinding(
                    verdict=CompatibilityVerdict.COMPATIBLE,
                    kind=TopologyDifference.NEW_INPUT,
                    subject=topic,
                    text=f"input {topic} is new: it is read from where auto.offset.reset says",
                    remedy="add it to topics.inputs",
                )

    def numbers(self) -> Iterable[CompatibilityFinding]:
        """Subtopologies whose number changed. State is found by names of topics, so none is lost."""
        if self.before is None:
            return
        old, new = self.before.homes, self.new.homes
        for store in sorted(old.keys() & new.keys()):
            if old[store].number != new[store].number:
                yield CompatibilityFinding(
                    verdict=CompatibilityVerdict.COMPATIBLE,
                    kind=TopologyDifference.SUBTOPOLOGY_MOVED,
                    subject=store,
                    text=f"store {store} was in subtopology {old[store].number} and is in {new[store].number}: its local state has the old number in the "
                    "names of its directories, and instances of both versions cannot share one group",
                    remedy="stop all instances before the new version starts, and let it restore its stores from their changelogs",
                )

    def not_compared(self) -> Iterable[str]:
        yield from self.unclear
        if self.before is None:
            yield "numbers of subtopologies, and what fed each store: the description of the running version is not there (--before)"
        numbered = sorted(store for store in self.changelogs if store in self.logged and self._is_one_of_several(store))
        if numbered:
            yield f"whether {first_names(numbered)} are the same stores as before: their names are only numbers of operators"
        if self._internal(self.new):
            yield (
                "which topics feed the repartition topics: without the description of the running version a store is compared by the topic that it reads itself"
                if self.before is None
                else "by which keys records are grouped: operators in front of repartition topics are compared by what they are, not by what they do"
            )
            yield "partitions of repartition topics: the program may set them, and then the description does not show it"
        if self.new.has_pattern:
            yield "which topics are read by a pattern"
        kept = sorted(self.changelogs.keys() & self.logged.keys())
        unknown = sorted(
            {topic for store in kept for topic in self.logged[store].read if self._topic(topic) is None} - self._internal(self.new)
        )
        if unknown:
            yield f"partitions of {first_names(unknown)}: the savepoint does not have it, and with too many Kafka Streams refuses to start"
        if no_kind := [store for store in kept if None in (self.changelogs[store].kind, self.facts(store).kind)]:
            yield f"whether {first_names(no_kind)} are of the kind that they were (stores.<name>.kind): a description does not have it"
        if kept:
            yield (
                "what keys and values are made of, sizes of windows, retention and serialisers, and whether a store still has a changelog: "
                "a description does not have them"
            )
        restored = sorted(store for store in self.new.homes if self.facts(store).source is not None)
        if restored:
            yield f"whether {first_names(restored)} are still restored from their topics: topology.optimization is not in a description"


def _perhaps_not_read(topic: str, patterns: Collection[str]) -> CompatibilityFinding:
    return CompatibilityFinding(
        verdict=CompatibilityVerdict.DOUBT,
        kind=TopologyDifference.INPUT_UNCLEAR,
        subject=topic,
        text=f"the new version reads {topic} only when a pattern matches it, which is not read here: {first_names(patterns)}",
        remedy=f"try the pattern with this name; say {ALLOW_DOUBT} when it matches, or when {topic} is not to be read any more",
    )
