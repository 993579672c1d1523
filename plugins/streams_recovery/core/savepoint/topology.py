"""Which topics an application is made of, and what each is to it.

Kafka knows less than one would like: committed partitions show inputs and repartition topics, name patterns show internal topics, but outputs,
globals and the kind of most stores are only known to the application's author. What the configuration declares is checked, not believed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import ClaimedTopic, Profile, StoreKind, TopicRole
from streams_recovery.core.names import internal_role, longer_owner, store_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the configuration says about the topics. ``include`` and ``exclude`` are globs that choose whose records are archived
    among inputs, outputs and globals; with ``all_read`` those of every input and global are, whatever the globs say; ``profile`` says whether those of
    internal topics are. ``stores`` has every store that is named, with its kind where that is given.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    globals: tuple[str, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    stores: Mapping[str, StoreKind | None]
    profile: Profile
    all_read: bool

    def archives(self, topic: str, role: TopicRole) -> bool:
        """True when the records of this topic are part of a savepoint."""
        if role.internal:
            # Globs are about what the configuration names; an internal topic that happens to match is archived with all others or not at all.
            return self.profile is Profile.FULL
        if self.all_read and role in (TopicRole.INPUT, TopicRole.GLOBAL):
            return True
        return any(fnmatchcase(topic, glob) for glob in self.include) and not any(fnmatchcase(topic, glob) for glob in self.exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyTopic:
    """One topic of the application."""

    name: str
    role: TopicRole
    archived: bool
    declared_store: StoreKind | None

    @property
    def committed(self) -> bool:
        """True when the application commits offsets on this topic."""
        return self.role in (TopicRole.INPUT, TopicRole.REPARTITION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All topics of one application, by name. ``undeclared`` inputs have committed offsets but are missing from the configuration. ``claimed``
    topics are not among them.
    """

    topics: tuple[TopologyTopic, ...]
    undeclared: tuple[str, ...]
    claimed: tuple[ClaimedTopic, ...]

    @property
    def tails(self) -> tuple[str, ...]:
        """Repartition topics whose unread records are archived."""
        return tuple(topic.name for topic in self.topics if topic.role is TopicRole.REPARTITION and topic.archived)

    @property
    def left_out(self) -> frozenset[str]:
        """Internal topics whose records are not archived."""
        return frozenset(topic.name for topic in self.topics if topic.role.internal and not topic.archived)

    def names(self, *roles: TopicRole) -> tuple[str, ...]:
        """Names of the topics with one of ``roles``, or of all."""
        return tuple(topic.name for topic in self.topics if not roles or topic.role in roles)


def owned_role(topic: str, application_id: str, stores: Collection[str], others: Iterable[str]) -> TopicRole | None:
    """What an internal topic is to this application, None for a topic that is not its own.

    A longer id among ``others`` takes the topics that begin with it, but every consumer group looks like such an id: the changelog of a store
    that the configuration names is this application's own whatever else its name might mean.
    """
    role = internal_role(topic, application_id)
    if role is TopicRole.CHANGELOG and store_name(topic, application_id) in stores:
        return role
    return internal_role(topic, application_id, others)


def claimed_topics(
    application_id: str, stores: Collection[str], existing: Iterable[str], other_application_ids: Iterable[str]
) -> tuple[ClaimedTopic, ...]:
    """Topics that would be this application's by their names and are taken for another one's."""
    others = tuple(other_application_ids)
    return tuple(
        ClaimedTopic(topic=topic, group=group)
        for topic in sorted(existing)
        if internal_role(topic, application_id) is not None
        and owned_role(topic, application_id, stores, others) is None
        and (group := longer_owner(topic, application_id, others)) is not None
    )


def topology_of(
    application_id: str,
    declared: Declared,
    existing: Collection[str],
    committed: Iterable[str],
    other_application_ids: Iterable[str] = (),
) -> Topology:
    """The application's topics on this cluster.

    ``existing`` are all topics of the cluster, ``committed`` the topics its group has offsets for. A topic with committed offsets that is not
    internal is an input whether declared or not: leaving it out would leave out its offsets. Raises ``NotFound`` for declared topics that
    do not exist, all of them at once.
    """
    others = tuple(other_application_ids)
    roles = {topic: role for topic in existing if (role := owned_role(topic, application_id, declared.stores, others)) is not None}
    committed = set(committed) & set(existing)
    # Nobody but its own application commits on a repartition topic, whoever's name it might also be.
    roles |= {topic: TopicRole.REPARTITION for topic in committed if internal_role(topic, application_id) is TopicRole.REPARTITION}
    undeclared = sorted(committed - set(roles) - set(declared.inputs))
    for names, role in ((declared.outputs, TopicRole.OUTPUT), (declared.globals, TopicRole.GLOBAL), (declared.inputs, TopicRole.INPUT)):
        roles |= dict.fromkeys(names, role)
    roles |= dict.fromkeys(undeclared, TopicRole.INPUT)
    missing = sorted(set(roles) - set(existing))
    if missing:
        raise NotFound(
            f"topics declared for {application_id} do not exist: {', '.join(missing)}",
            next_step="create them or correct topics.inputs, topics.outputs and topics.globals in the application's configuration; where the cluster has lost "
            "them, restore a savepoint, or rebuild with the inputs of one (option --inputs-from)",
            topics=missing,
        )
    return Topology(
        topics=tuple(_topic(name, roles[name], application_id, declared) for name in sorted(roles)),
        undeclared=tuple(undeclared),
        claimed=tuple(one for one in claimed_topics(application_id, declared.stores, existing, others) if one.topic not in roles),
    )


def _topic(name: str, role: TopicRole, application_id: str, declared: Declared) -> TopologyTopic:
    store = declared.stores.get(store_name(name, application_id)) if role is TopicRole.CHANGELOG else None
    return TopologyTopic(name=name, role=role, archived=declared.archives(name, role), declared_store=store)
