"""Determines which topics belong to an application, and the role of each.

Kafka shows only a part of that. Committed offsets show inputs and repartition topics, name patterns show internal topics. Outputs, globals and the
kind of most stores are known only from the configuration, which is checked against the cluster.
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
    """The configured topics. ``include`` and ``exclude`` are globs for the inputs, outputs and globals whose records are archived. With ``all_read``
    the records of every input and global are archived, whatever the globs say. ``profile`` says whether records of internal topics are archived.
    ``stores`` has every configured store, with its kind if that is given.
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
        """True if savepoints contain the records of this topic."""
        if role.internal:
            # Globs apply only to configured topics. Internal topics are archived all together, or not at all.
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
        """True if the application commits offsets on this topic."""
        return self.role in (TopicRole.INPUT, TopicRole.REPARTITION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All topics of one application, by name. ``undeclared`` inputs have committed offsets, but are missing in the configuration. ``claimed`` topics
    are not among the topics.
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
    """The role of an internal topic in this application, None if the topic is not its own. Topics that begin with a longer id among ``others`` belong
    to that id. Every consumer group looks like such an id. So the changelog of a configured store always belongs to this application.
    """
    role = internal_role(topic, application_id)
    if role is TopicRole.CHANGELOG and store_name(topic, application_id) in stores:
        return role
    return internal_role(topic, application_id, others)


def claimed_topics(
    application_id: str, stores: Collection[str], existing: Iterable[str], other_application_ids: Iterable[str]
) -> tuple[ClaimedTopic, ...]:
    """Topics that by their names could be this application's, but are assigned to another one."""
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
    """The application's topics on this cluster. ``existing`` are all topics of the cluster, ``committed`` the topics on which its group has offsets.
    A topic with committed offsets that is not internal is an input even if it is not declared, because its offsets are needed. Raises ``NotFound``
    for declared topics that do not exist, all at once.
    """
    others = tuple(other_application_ids)
    roles = {topic: role for topic in existing if (role := owned_role(topic, application_id, declared.stores, others)) is not None}
    committed = set(committed) & set(existing)
    # Only the application that owns a repartition topic commits on it, even if the name could belong to another one.
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
