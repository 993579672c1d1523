"""Determines which topics belong to an application, and the role of each.

Kafka shows only a part of that. Committed offsets show inputs and repartition topics, name patterns show what could be internal topics:
``my-app-v1-t-changelog`` is one of ``my-app``, with a store ``v1-t``, or of ``my-app-v1``. Names of Faust's repartition topics do not say whose they are.
Outputs, globals and the kind of most stores are known only from the configuration, which is checked against the cluster.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Self

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import Claim, ClaimedTopic, Evidence, Profile, StoreKind, TopicRole
from streams_recovery.core.names import longer_owner, matches_any, matches_pattern, store_name
from streams_recovery.core.written import Globs, TextRule, TopicNames

_PRESENT: Final = (Evidence.STORE, Evidence.COMMITTED, Evidence.NAMED)
_REPOSITORY: Final = (Evidence.RESTORED, Evidence.SAVEPOINT)
_CONFIGURED: Final = (Claim.DECLARED, Claim.FOREIGN, Claim.CONFIGURED)
# Bytes of stream time, and a version that Kafka Streams will not reach soon: it is at 2.
_STREAM_TIME: Final = 8
_VERSIONS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """The application's own topics. Internal topics are found by themselves and archived unless ``backup.profile`` is minimal; ``include`` and
    ``exclude`` choose which of the topics named here are archived with their records too, besides those that ``backup.survive_cluster_loss`` needs.
    Offsets and settings of all of them are always in a savepoint. ``owned`` are internal topics that nothing but their names would say to be this
    application's, ``foreign`` those of another one whose id begins like this one's. ``input_patterns`` are what the program subscribes to by pattern: which
    topics they mean is known only on a cluster, see ``on``.
    """

    inputs: Annotated[tuple[str, ...], TextRule.INPUTS] = ()
    input_patterns: Annotated[tuple[str, ...], TextRule.PATTERNS] = ()
    outputs: TopicNames = ()
    globals: TopicNames = ()
    include: Globs = ()
    exclude: Globs = ()
    owned: TopicNames = ()
    foreign: TopicNames = ()

    @property
    def declared(self) -> dict[str, TopicRole]:
        """Every topic named here with its role. A topic that is read and written counts as input: that is the stronger promise."""
        return {
            **dict.fromkeys(self.outputs, TopicRole.OUTPUT),
            **dict.fromkeys(self.globals, TopicRole.GLOBAL),
            **dict.fromkeys(self.inputs, TopicRole.INPUT),
        }

    def reads(self, name: str) -> bool:
        """True for an input, be it one that a pattern means. A global topic is none: Kafka Streams reads a topic one way only."""
        return name in self.inputs or (name not in self.globals and name not in self.foreign and matches_pattern(name, self.input_patterns))

    @property
    def loops(self) -> list[str]:
        """The topics that the application both reads, in whichever way, and writes."""
        return [name for name in self.outputs if self.reads(name) or name in self.globals]

    def on(self, existing: Iterable[str]) -> Self:
        """The topics where these exist: inputs are all that the patterns mean there, those that are named first."""
        if not self.input_patterns:
            return self
        return replace(self, inputs=(*self.inputs, *sorted(name for name in {*existing} - {*self.inputs} if self.reads(name))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared(Topics):
    """The configured topics, and what says which records are archived. ``include`` and ``exclude`` are about inputs, outputs and globals. With ``all_read``
    the records of every input and global are archived, whatever these say. ``profile`` says whether records of internal topics are archived.
    ``stores`` has every configured store, with its kind if that is given.
    """

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
        return matches_any(topic, self.include) and not matches_any(topic, self.exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyTopic:
    """One topic of the application. ``evidence`` says why an internal one is taken for its own, None if it is unattributed or not internal."""

    name: str
    role: TopicRole
    archived: bool
    declared_store: StoreKind | None
    evidence: Evidence | None

    @property
    def committed(self) -> bool:
        """True if the application commits offsets on this topic."""
        return self.role in (TopicRole.INPUT, TopicRole.REPARTITION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All topics of one application, by name. ``undeclared`` inputs have committed offsets, but are missing in the configuration. ``claimed`` topics
    are another application's, and not among the topics.
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

    @property
    def unattributed(self) -> tuple[str, ...]:
        """Internal topics that only their names say to be the application's, and not even those for sure."""
        return tuple(topic.name for topic in self.topics if topic.role.internal and topic.evidence is None)

    def names(self, *roles: TopicRole) -> tuple[str, ...]:
        """Names of the topics with one of ``roles``, or of all."""
        return tuple(topic.name for topic in self.topics if not roles or topic.role in roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionFacts:
    """Knowledge of whose the internal topics are, besides their names. ``stores`` are those of the configuration, ``owned`` and ``foreign`` topics that
    it names, ``inputs`` those that it declares. ``committed`` are topics on which the application's group has offsets, ``shared`` topics that may be another
    application's as well, ``restored`` those on the cluster that a restore of the application has created, by their ids. ``saved`` has what a savepoint
    recorded of each of its topics. ``configured`` are the other configured applications with the changelogs of their stores, ``groups`` consumer groups of
    other applications, and ``remembered`` applications to which the newest savepoint has assigned topics. ``working`` are those of ``configured`` whose
    consumer group is there.
    """

    application_id: str
    kind: ApplicationKind = ApplicationKind.KAFKA_STREAMS
    stores: Collection[str] = ()
    owned: Collection[str] = ()
    foreign: Collection[str] = ()
    inputs: Collection[str] = ()
    committed: Collection[str] = ()
    shared: Collection[str] = ()
    restored: Collection[str] = ()
    saved: Mapping[str, Evidence] = field(default_factory=dict)
    configured: Mapping[str, Collection[str]] = field(default_factory=dict)
    groups: Collection[str] = ()
    remembered: Collection[str] = ()
    working: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The owner of a topic that could be an internal topic of the application by its name: its own by ``evidence``, another one's by ``claim``, or with neither
    *unattributed*.
    """

    topic: str
    role: TopicRole
    evidence: Evidence | None
    claim: ClaimedTopic | None

    @property
    def proven(self) -> bool:
        """True if the topic may be deleted or replaced."""
        return self.evidence is not None and self.evidence.proves


def attributed(topic: str, known: AttributionFacts) -> Attribution | None:
    """The owner of the topic, None if its name is not that of an internal topic of the application.

    What configurations say and what the group has committed decides; where two configurations contradict each other, or the group has committed and the other
    application is configured and has a group, the topic has no owner. A topic whose name also begins with the id of another application is that application's;
    but if the repository has evidence and the other application is known only by its group, the topic has no owner. A plain consumer group has no internal
    topics, so its name says nothing. Where a name does not begin with the id, as those of Faust's repartition topics, it says nothing either: without any
    evidence the topic is no business of the application, unless its group reads there or the name has an input in it. Then it may be the application's, which
    has not committed there yet.
    """
    role = known.kind.dialect.role(topic, known.application_id)
    if role is None:
        return None
    ours, claim = _ours(topic, role, known), _claim(topic, known)
    perhaps = topic in known.committed or any(f"-{name}-" in f"-{topic}" for name in known.inputs)
    if ours is None and not perhaps and not known.kind.dialect.by_id(topic, known.application_id):
        return None
    if ours is not None and claim is not None:
        # Its group may have committed on what another one made: where that one works, this proves nothing. Nor is it theirs, so that no state is missing.
        beside = ours is Evidence.COMMITTED and claim.because is Claim.CONFIGURED and claim.group in known.working
        contradicts = beside or claim.because in (Claim.DECLARED, Claim.FOREIGN) if ours in _PRESENT else claim.because not in _CONFIGURED
        if contradicts:
            return Attribution(topic=topic, role=role, evidence=None, claim=None)
        ours, claim = (ours, None) if ours in _PRESENT else (None, claim)
    return Attribution(topic=topic, role=role, evidence=ours, claim=claim)


def _ours(topic: str, role: TopicRole, known: AttributionFacts) -> Evidence | None:
    dialect = known.kind.dialect
    alone = dialect.only_its_own(topic, known.application_id)
    saved = known.saved.get(topic)
    found = {
        # The strongest first: the first that holds is recorded.
        Evidence.STORE: role is TopicRole.CHANGELOG and store_name(topic, known.application_id) in known.stores,
        # Only the application that owns a repartition topic commits on it. Two Faust applications with the same code have the same topic, and it has no owner.
        Evidence.COMMITTED: topic not in known.shared
        and any(name in known.committed for name in ((topic,) if role is TopicRole.REPARTITION else dialect.read_beside(topic))),
        Evidence.NAMED: topic in known.owned,
        Evidence.RESTORED: topic in known.restored,
        # What the configuration said when the savepoint was taken it can say today. A name does not become a proof by being written down.
        Evidence.SAVEPOINT: topic not in known.shared
        and (saved in (Evidence.COMMITTED, *_REPOSITORY) or (saved is not None and saved.proves and alone)),
        Evidence.NAME: alone,
    }
    return next((evidence for evidence, holds in found.items() if holds), None)


def _claim(topic: str, known: AttributionFacts) -> ClaimedTopic | None:
    me = known.application_id
    declaring = sorted(other for other, changelogs in known.configured.items() if topic in changelogs)
    owners = {
        Claim.DECLARED: next(iter(declaring), None),
        Claim.CONFIGURED: longer_owner(topic, me, known.configured),
        Claim.GROUP: longer_owner(topic, me, known.groups),
        Claim.SAVEPOINT: longer_owner(topic, me, known.remembered),
    }
    if topic in known.foreign and owners[Claim.DECLARED] is None:
        return ClaimedTopic(topic=topic, group=None, because=Claim.FOREIGN)
    return next((ClaimedTopic(topic=topic, group=owner, because=why) for why, owner in owners.items() if owner is not None), None)


def is_streams_metadata(metadata: str) -> bool:
    """True if this metadata of a committed offset is Kafka Streams' (TopicPartitionMetadata): a version, then eight bytes of stream time."""
    try:
        found = base64.b64decode(metadata, validate=True)
    except ValueError:
        return False
    return len(found) > _STREAM_TIME and 0 < found[0] < _VERSIONS


def topology_of(known: AttributionFacts, declared: Declared, existing: Collection[str], committed: Iterable[str]) -> Topology:
    """The application's topics on this cluster. ``existing`` are all topics of the cluster, ``committed`` those on which its group has offsets.
    A topic with committed offsets that is not internal is an input even if it is not declared, because its offsets are needed. Unattributed topics
    are among the topics: no state is to be missing. Raises ``NotFound`` for declared topics that do not exist, all at once.
    """
    whose = {topic: found for topic in existing if (found := attributed(topic, known)) is not None}
    roles = {topic: found.role for topic, found in whose.items() if found.claim is None}
    read = {topic for topic in committed if not known.kind.dialect.made_again(topic, known.application_id)}
    undeclared = sorted((read & set(existing)) - set(roles) - set(declared.inputs))
    for names, role in ((declared.outputs, TopicRole.OUTPUT), (declared.globals, TopicRole.GLOBAL), (declared.inputs, TopicRole.INPUT)):
        roles |= dict.fromkeys(names, role)
    roles |= dict.fromkeys(undeclared, TopicRole.INPUT)
    missing = sorted(set(roles) - set(existing))
    if missing:
        raise NotFound(
            f"topics declared for {known.application_id} do not exist: {', '.join(missing)}",
            next_step="create them or correct topics.inputs, topics.outputs and topics.globals in the application's configuration; where the cluster has lost "
            "them, restore a savepoint, or rebuild with the inputs of one (option --inputs-from)",
            topics=missing,
        )
    evidence = {topic: found.evidence for topic, found in whose.items()}
    return Topology(
        topics=tuple(_topic(name, roles[name], known.application_id, declared, evidence.get(name)) for name in sorted(roles)),
        undeclared=tuple(undeclared),
        claimed=tuple(found.claim for topic, found in sorted(whose.items()) if found.claim is not None and topic not in roles),
    )


def _topic(name: str, role: TopicRole, application_id: str, declared: Declared, evidence: Evidence | None) -> TopologyTopic:
    store = declared.stores.get(store_name(name, application_id)) if role is TopicRole.CHANGELOG else None
    return TopologyTopic(
        name=name,
        role=role,
        archived=declared.archives(name, role),
        declared_store=store,
        evidence=evidence if role.internal else None,
    )
