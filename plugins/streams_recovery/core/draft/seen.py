"""What a cluster shows of applications: which there seem to be, and what is known of one of them. Nothing here is configured yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from streams_recovery.core.application_kind import ApplicationKind, of_faust
from streams_recovery.core.kafka_types import Guarantee, ListedGroup, StoreKind, TopicRole
from streams_recovery.core.names import application_of, internal_role, is_name, own_transactions, store_kind, store_name
from streams_recovery.core.rollout.described import DescribedTopology
from streams_recovery.core.savepoint.topology import Attribution
from streams_recovery.core.topic_holds.compaction_guard import owner_config

# Parts of the names that Kafka Streams gives to stores of joins of two streams (StreamJoined, OuterStreamJoinStoreFactory).
_JOIN_WINDOWS: Final = ("KSTREAM-JOINTHIS-", "KSTREAM-JOINOTHER-", "KSTREAM-OUTERTHIS-", "KSTREAM-OUTEROTHER-")
_JOIN_LISTS: Final = ("KSTREAM-OUTERSHARED-", "-shared-join-store")
# Stores of foreign-key joins have keys of a form of their own (KTableImpl, CombinedKeySchema).
_SUBSCRIPTIONS: Final = ("KTABLE-FK-JOIN-SUBSCRIPTION-", "-subscription-store")
_BY_NAME: Final = "topics are called like internal ones of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """What the user of a connection may see. ``streams`` are groups with members or metadata of Kafka Streams, as far as they were looked at."""

    topics: frozenset[str]
    groups: Mapping[str, ListedGroup]
    transactional_ids: tuple[str, ...] = ()
    streams: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What looks like an application, and why, as a clause. ``by_name``: only names of topics say so."""

    application_id: str
    kind: ApplicationKind
    because: str
    by_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWorkload:
    """A workload of Kubernetes that seems to run the application. What it does not show is None. ``because`` is a clause. ``by_label``: only a label says so,
    and whoever wrote that may have meant something else.
    """

    namespace: str
    workload: str
    container: str | None
    port: int | None
    state_directory: str | None
    because: str
    by_label: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSeen:
    """One application. ``existing`` are the topics of the cluster, ``committed`` those on which its group has offsets, ``internal`` those that are called like
    internal ones of it, with their owners; ``settings`` has overrides of changelogs. ``guarantee`` is None where nobody may see its transactional ids.
    ``topology`` is a description of it, from ``described_by``; ``stated`` are changelogs that its group names itself. ``pauses``: whether an instance says that
    it can be paused, None where none was asked.
    """

    application_id: str
    kind: ApplicationKind
    existing: frozenset[str] = frozenset()
    committed: frozenset[str] = frozenset()
    internal: Mapping[str, Attribution] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    guarantee: Guarantee | None = None
    topology: DescribedTopology | None = None
    described_by: str = ""
    stated: frozenset[str] = frozenset()
    pauses: bool | None = None
    workloads: tuple[FoundWorkload, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Topics that it reads and does not make: by its offsets, or by its description where it has none yet."""
        return self._own(self.committed | (self.topology.read if self.topology else frozenset()))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Topics that its sinks name, as far as a description tells."""
        return self._own(self.topology.written if self.topology else ())

    @property
    def globals(self) -> tuple[str, ...]:
        """Topics of its global tables, as far as a description tells."""
        found = (one.read for one in self.topology.subtopologies if one.is_global) if self.topology else ()
        return tuple(name for name in self._own(frozenset().union(*found)) if name not in self.inputs)

    @property
    def chooses_outputs(self) -> bool:
        """True where a sink chooses its topic for each record, so that no description names it."""
        nodes = (node for one in (self.topology.subtopologies if self.topology else ()) for node in one.nodes)
        return any(node.extractor is not None for node in nodes)

    @property
    def has_pattern(self) -> bool:
        """True where it subscribes to a pattern."""
        return self.topology is not None and any(one.has_pattern for one in self.topology.subtopologies)

    @property
    def stores(self) -> dict[str, str]:
        """Its stores with their changelogs: those that something says to be its own."""
        return {store: topic for store, topic in self._changelogs().items() if not self._doubtful(store, topic)}

    @property
    def doubtful(self) -> dict[str, str]:
        """Stores whose changelogs only their names say to be its own, and not even those for sure: a longer id could be the beginning of each."""
        return {store: topic for store, topic in self._changelogs().items() if self._doubtful(store, topic)}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Topics with names that no configuration takes, such as one that begins with a dash."""
        return tuple(sorted(name for name in self.committed if not is_name(name)))

    def kind_of(self, store: str) -> tuple[StoreKind, str]:
        """The kind of a store by the name and the settings of its changelog, and what says so where that is a guess, as a clause. ``UNKNOWN`` has one where a
        person can tell.
        """
        topic = self._changelogs()[store]
        settings = owner_config(self.settings.get(topic, {}))
        proven, policy = store_kind(topic, self.application_id, settings, None), settings.get("cleanup.policy", "")
        if self.kind is ApplicationKind.FAUST:
            return StoreKind.KEY_VALUE, ""
        if proven is not StoreKind.UNKNOWN:
            return proven, ""
        if any(part in store for part in _JOIN_LISTS):
            return StoreKind.LIST, "by its name"
        if any(store.startswith(part) for part in _JOIN_WINDOWS):
            return StoreKind.WINDOW, "by its name"
        if "suppress" in store.lower():
            return StoreKind.SUPPRESS, "by its name"
        if any(part in store for part in _SUBSCRIPTIONS):
            return StoreKind.UNKNOWN, ""
        if policy == "compact":
            return StoreKind.KEY_VALUE, "its changelog is compacted, and nothing is deleted by age"
        return StoreKind.UNKNOWN, "window or session: settings do not say which" if "delete" in policy else ""

    def _changelogs(self) -> dict[str, str]:
        found = {
            store_name(topic, self.application_id): topic
            for topic, one in sorted(self.internal.items())
            if one.role is TopicRole.CHANGELOG and one.claim is None
        }
        return {store: topic for store, topic in found.items() if is_name(store)}

    def _doubtful(self, store: str, topic: str) -> bool:
        named = self.topology is not None and store in self.topology.homes
        return self.internal[topic].evidence is None and topic not in self.stated and not named

    def _own(self, names: Iterable[str]) -> tuple[str, ...]:
        """Topics of ``names`` that are there and not internal. A description has names of repartition topics without the application id."""
        role, own = self.kind.dialect.role, self.application_id
        hidden = {name for name in names if f"{own}-{name}" in self.existing and role(f"{own}-{name}", own) is not None}
        dialect = self.kind.dialect
        return tuple(
            name
            for name in sorted({*names} & self.existing - hidden)
            if role(name, own) is None and not dialect.made_again(name, own) and is_name(name)
        )


def candidates(seen: ClusterSeen) -> tuple[Candidate, ...]:
    """What looks like an application of Kafka Streams or Faust, by the strongest reason. A topic speaks for the longest group that it could belong to, so the
    topics of `orders-eu` never make an application of a plain group `orders`. Ids that no configuration can have are left out.
    """
    faust = of_faust(seen.groups, seen.topics)
    transactional = {found for one in seen.transactional_ids if (found := application_of(one)) is not None}
    reasons: dict[str, str] = dict.fromkeys(_owners(seen.topics, seen.groups), _BY_NAME)
    reasons |= dict.fromkeys(seen.streams, "its group has members or offsets of Kafka Streams")
    reasons |= dict.fromkeys(transactional, "it has transactional ids of Kafka Streams")
    reasons |= {name: "its group is of the streams protocol" for name, one in seen.groups.items() if one.kind == "streams"}
    reasons |= dict.fromkeys(faust, "its workers have a topic to choose a leader")
    return tuple(
        Candidate(
            application_id=name,
            kind=ApplicationKind.FAUST if name in faust else ApplicationKind.KAFKA_STREAMS,
            because=reasons[name],
            by_name=reasons[name] is _BY_NAME,
        )
        for name in sorted(reasons)
        if is_name(name)
    )


def undecided(seen: ClusterSeen) -> tuple[str, ...]:
    """Groups of which names say nothing: one of them may be an application without state."""
    known = {one.application_id for one in candidates(seen)}
    return tuple(sorted(name for name, one in seen.groups.items() if one.commits and one.kind == "classic" and name not in known))


def guarantee_of(kind: ApplicationKind, application_id: str, transactional_ids: Collection[str], *, visible: bool) -> Guarantee | None:
    """The guarantee that the transactional ids show, None where they are not ``visible``. Brokers keep one for a week behind its last transaction."""
    if Guarantee.EXACTLY_ONCE_V2 not in kind.dialect.guarantees:
        return Guarantee.AT_LEAST_ONCE
    if any(own_transactions(application_id).fullmatch(one) for one in transactional_ids):
        return Guarantee.EXACTLY_ONCE_V2
    return Guarantee.AT_LEAST_ONCE if visible else None


def _owners(topics: Iterable[str], ids: Collection[str]) -> set[str]:
    """The longest of ``ids`` that each topic could be an internal topic of."""
    found = set()
    for topic in topics:
        begins = (topic[:at] for at in range(len(topic) - 1, 0, -1) if topic[at] == "-")
        owner = next((one for one in begins if one in ids and internal_role(topic, one) is not None), None)
        if owner is not None:
            found.add(owner)
    return found
