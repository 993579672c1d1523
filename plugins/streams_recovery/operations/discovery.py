"""Looking at an application's topics and group on the cluster as they are now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streams_recovery.config.sandbox_application import SandboxApplication
from streams_recovery.core.application_kind import of_faust
from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.kafka_types import (
    Evidence,
    GroupDescription,
    Profile,
    StoreKind,
    TopicDescription,
    TopicPartition,
    TopicRole,
)
from streams_recovery.core.names import internal_role, longer_owner, store_kind
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.savepoint.topology import Attribution, AttributionFacts, Topology, attributed, is_streams_metadata, topology_of
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import created_by_restores

if TYPE_CHECKING:
    from streams_recovery.kafka.groups import ConsumerGroups

# Part of the client id of every consumer of a Kafka Streams application.
_STREAM_THREAD = "-StreamThread-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The application's topics, described, and its consumer group."""

    inventory: Topology
    topics: dict[str, TopicDescription]
    group: GroupDescription

    def partitions(self, *roles: TopicRole) -> tuple[TopicPartition, ...]:
        """Every partition of the topics with one of ``roles``, or of all."""
        return tuple(
            TopicPartition(name, partition) for name in self.inventory.names(*roles) for partition in range(self.topics[name].partitions)
        )

    @property
    def to_read(self) -> tuple[TopicDescription, ...]:
        """Every topic but internal ones whose records are not archived."""
        return tuple(description for name, description in self.topics.items() if name not in self.inventory.left_out)

    def store_kind(self, topic: str, application_id: str, config: dict[str, str]) -> StoreKind | None:
        """The kind of the store behind a changelog, None for other topics. ``config`` is the topic's without our holds."""
        entry = next(entry for entry in self.inventory.topics if entry.name == topic)
        if entry.role is not TopicRole.CHANGELOG:
            return None
        return store_kind(topic, application_id, config, entry.declared_store)


def discover(recovery: RecoveryContext) -> Discovery:
    """The application as the cluster has it. Raises ``NotFound`` for a group without offsets or declared topics that do not exist,
    ``Refused`` when not one changelog is there and state is to be saved: without any there is none.
    """
    profile = recovery.config.backup.profile
    application_id = recovery.application_id
    group = recovery.groups.describe(application_id)
    committed = recovery.groups.committed_partitions(application_id)
    if not committed:
        raise NotFound(
            f"the consumer group {application_id} has no committed offsets on this cluster",
            next_step="check application.id and the Kafka connection, and that the application has processed something",
            group=application_id,
        )
    existing, read = recovery.cluster.topic_names(), {tp.topic for tp in committed}
    inventory = topology_of(known(recovery, existing, read), recovery.config.declared(profile, existing), existing, read)
    if profile is Profile.FULL and not inventory.names(TopicRole.CHANGELOG):
        taken = "".join(f"; {one.topic}: {one.why}" for one in inventory.claimed)
        raise Refused(
            f"{application_id} has no changelog topic on this cluster{taken}",
            next_step="check application.id; name the application's stores under `stores` in the configuration if its topics are taken for another "
            "one's; for an application without state set backup.profile to minimal",
            application_id=application_id,
            taken_by={one.topic: one.group for one in inventory.claimed},
        )
    return _described(recovery, inventory, group)


def discover_remaining(recovery: RecoveryContext, expected: Collection[str]) -> tuple[Discovery, tuple[str, ...]]:
    """The topics and the group that are left of an application, and what is missing: offsets, and topics that are ``expected`` or declared."""
    group = recovery.groups.describe(recovery.application_id)
    committed = recovery.groups.committed_partitions(recovery.application_id)
    # What is about to be replaced is saved whole, whatever the savepoints of every day are like.
    existing = recovery.cluster.topic_names()
    wanted = recovery.config.declared(Profile.FULL, existing)
    there = replace(
        wanted,
        inputs=tuple(name for name in wanted.inputs if name in existing),
        outputs=tuple(name for name in wanted.outputs if name in existing),
        globals=tuple(name for name in wanted.globals if name in existing),
    )
    read = {tp.topic for tp in committed}
    inventory = topology_of(known(recovery, existing, read), there, existing, read)
    gone = sorted({*expected, *wanted.inputs, *wanted.outputs, *wanted.globals} - set(existing))
    missing = (*(() if committed else ("the committed offsets",)), *(f"topic {name}" for name in gone))
    return _described(recovery, inventory, group), missing


def other_groups(recovery: RecoveryContext) -> list[str]:
    """Every consumer group of the cluster but the application's own."""
    return [group for group in recovery.cluster.groups() if group != recovery.application_id]


def _described(recovery: RecoveryContext, inventory: Topology, group: GroupDescription) -> Discovery:
    topics = recovery.cluster.describe_topics(inventory.names())
    vanished = sorted(set(inventory.names()) - set(topics))
    if vanished:
        raise Refused(f"topics vanished while they were described: {', '.join(vanished)}", next_step="run again", topics=vanished)
    return Discovery(inventory=inventory, topics=topics, group=group)


def known(
    recovery: RecoveryContext,
    existing: Collection[str],
    committed: Collection[str] | None = None,
    saved: Mapping[str, Evidence] | None = None,
) -> AttributionFacts:
    """The facts about the owners of topics, for those of the ``existing`` ones that could be internal topics of the application. ``committed`` are topics on
    which its group has offsets, ``saved`` is the evidence of a savepoint from elsewhere. Other owners are looked for only if configuration and offsets leave
    the owner open.
    """
    me, topics = recovery.application_id, recovery.config.topics
    if committed is None:
        committed = _committed(recovery)
    names = [name for name in existing if recovery.config.internal_role(name) is not None]
    here = AttributionFacts(
        application_id=me,
        kind=recovery.config.application.kind,
        stores=recovery.config.stores,
        owned=topics.owned,
        foreign=topics.foreign,
        inputs=topics.inputs,
        committed=committed,
        saved=saved or {},
    )
    here = replace(here, shared=_shared(recovery, existing, {name for name in names if name in here.committed or name in here.saved}))
    if not names:
        return here
    here = replace(here, configured=recovery.configured())
    here = replace(here, working=_working(recovery, names, here))
    if not (unclear := _unclear(names, here)):
        return here
    newest = _newest_readable(recovery)
    if newest is not None:
        saved_before = {image.name: image.evidence for image in newest.topics if image.role.internal and image.evidence is not None}
        remembered = {one.group for one in newest.claimed if one.group is not None}
        here = replace(here, saved={**saved_before, **here.saved}, remembered=remembered)
        here = replace(here, shared={*here.shared, *_shared(recovery, existing, {name for name in unclear if name in here.saved})})
    here = replace(here, groups=_other_applications(recovery, existing, unclear))
    return replace(here, restored=_restored(recovery, unclear)) if (unclear := _unclear(names, here)) else here


def _working(recovery: RecoveryContext, names: Iterable[str], here: AttributionFacts) -> set[str]:
    """Other configured applications whose group is there. Asked only where this one's group has committed on what one of them may own."""
    committed = (name for name in names if (one := attributed(name, here)) is not None and one.evidence is Evidence.COMMITTED)
    if not any(longer_owner(name, recovery.application_id, here.configured) is not None for name in committed):
        return set()
    return set(here.configured).intersection(recovery.cluster.groups())


def _committed(recovery: RecoveryContext) -> set[str]:
    """Topics on which the group has offsets. None that this user may see is no evidence: nothing is deleted without, and the preflight names the right."""
    try:
        return {tp.topic for tp in recovery.groups.committed_partitions(recovery.application_id)}
    except Refused:
        return set()


def _shared(recovery: RecoveryContext, existing: Collection[str], names: Collection[str]) -> set[str]:
    """Topics of ``names`` that may be another application's as well: one of Faust commits there too, or its id is the beginning of the name. That happens only
    where names do not begin with this one's.
    """
    unsure = {name for name in names if not recovery.config.dialect.by_id(name, recovery.application_id)}
    if not unsure:
        return set()
    groups = other_groups(recovery)
    committing = {name for name in unsure for group in groups if internal_role(name, group) is not None}
    for group in of_faust(groups, existing):
        try:
            committing |= {tp.topic for tp in recovery.groups.committed_partitions(group)}
        except Refused:
            # It may commit on any of them: a topic that could be another application's is not taken.
            return unsure
    return unsure & committing


def _newest_readable(recovery: RecoveryContext) -> Manifest | None:
    """The newest savepoint that says whose topics are, whatever became of those after it."""
    for savepoint_id in reversed(recovery.savepoints.ids()):
        try:
            found = recovery.savepoints.outline(savepoint_id)
        except (Damaged, NotFound):
            continue
        if not found.taken_by_name:
            return found
    return None


def _unclear(names: Iterable[str], here: AttributionFacts) -> list[str]:
    """Topics of which neither the configurations nor the group's offsets say whose they are, nor a savepoint where no other id could begin the name. A name
    that does not begin with the id says nothing: such a topic may be known from a savepoint or a restore.
    """
    found, dialect = {name: attributed(name, here) for name in names}, here.kind.dialect
    present = (Evidence.STORE, Evidence.COMMITTED, Evidence.NAMED)
    return [
        name
        for name, one in found.items()
        if one is None
        or (one.claim is None and one.evidence not in present and not (one.proven and dialect.only_its_own(name, here.application_id)))
    ]


def _restored(recovery: RecoveryContext, names: Collection[str]) -> set[str]:
    """Topics of ``names`` that a restore of the application has created, as its journal says: the same topic, not only the same name."""
    ids = created_by_restores(recovery)
    there = recovery.cluster.describe_topics([name for name in names if name in ids])
    return {name for name, found in there.items() if found.topic_id in ids[name]}


def _other_applications(recovery: RecoveryContext, existing: Collection[str], names: Collection[str]) -> set[str]:
    """Groups of applications whose internal topics these could be, by their longer ids: such a group is of the streams protocol, has Kafka Streams' members or
    metadata, or is one of Faust. Others have no internal topics, whatever they are called.
    """
    me, dialect = recovery.application_id, recovery.config.dialect
    begun = [name for name in names if dialect.by_id(name, me)]
    if all(dialect.only_its_own(name, me) for name in begun):
        return set()
    kinds = recovery.cluster.groups()
    likely = {group for group in kinds if any(longer_owner(name, me, (group,)) is not None for name in begun)}
    faust = of_faust(likely, existing)
    return {group for group in likely if kinds[group] == "streams" or group in faust or is_of_streams(recovery, group)}


def is_of_streams(recovery: RecoveryContext, group: str) -> bool:
    """True for a group with Kafka Streams' members or metadata, and for one that cannot be looked at."""
    try:
        return shows_streams(recovery.groups, group)
    except Refused:
        # It may be one: a topic that could be another application's is not taken.
        return True


def shows_streams(groups: ConsumerGroups, group: str) -> bool:
    """True for a group with Kafka Streams' members or metadata. Raises ``Refused`` for one that may not be looked at."""
    if any(_STREAM_THREAD in member.client_id for member in groups.describe(group).members):
        return True
    return any(is_streams_metadata(offset.metadata) for offset in groups.last_committed(group).values())


def attributions(recovery: RecoveryContext, saved: Mapping[str, Evidence] | None = None) -> dict[str, Attribution]:
    """Whose each topic of the cluster is that could be an internal topic of the application by its name. ``saved``: see ``known``."""
    existing = recovery.cluster.topic_names()
    here = known(recovery, existing, saved=saved)
    return {name: found for name in sorted(existing) if (found := attributed(name, here)) is not None}


def internal_topics(recovery: RecoveryContext) -> list[str]:
    """Every changelog and repartition topic that the cluster has now and that is the application's or unattributed."""
    return [name for name, found in attributions(recovery).items() if found.claim is None]


def own_names(recovery: RecoveryContext) -> set[str]:
    """Names that a sandbox may make and remove: its internal topics that are there, and those that its section maps topics to. They follow from its application
    id and its configuration, never from what the repository says.
    """
    config = recovery.config
    return {*internal_topics(recovery), *(config.own.values() if isinstance(config, SandboxApplication) else ())}


def known_topics(recovery: RecoveryContext, names: Collection[str]) -> set[str]:
    """Topics of the application among ``names``, which come from the repository: internal, named in the configuration, or read by its group."""
    topics = recovery.config.topics
    own = {*topics.declared, *recovery.config.restore.topic_map.values()}
    own |= {name for name in names if topics.reads(name) or recovery.config.dialect.by_id(name, recovery.application_id)}
    if not own.issuperset(names):
        own |= {tp.topic for tp in recovery.groups.committed_partitions(recovery.application_id)}
    return own.intersection(names)


def input_partitions(recovery: RecoveryContext) -> list[TopicPartition]:
    """Every partition of the configured inputs. Raises ``NotFound``."""
    wanted = recovery.topics.inputs
    found = recovery.cluster.describe_topics(wanted)
    missing = sorted(set(wanted) - set(found))
    if missing or not wanted:
        raise NotFound(
            f"inputs of {recovery.application_id} do not exist: {', '.join(missing or recovery.config.topics.input_patterns)}",
            next_step="create them or correct topics.inputs and topics.input_patterns in the application's configuration",
            topics=missing,
        )
    return [TopicPartition(name, number) for name in sorted(wanted) for number in range(found[name].partitions)]


def repartition_partitions(recovery: RecoveryContext) -> list[TopicPartition]:
    """Every partition of the application's repartition topics."""
    names = [name for name in internal_topics(recovery) if recovery.config.internal_role(name) is TopicRole.REPARTITION]
    return [
        TopicPartition(name, number)
        for name, found in recovery.cluster.describe_topics(names).items()
        for number in range(found.partitions)
    ]
