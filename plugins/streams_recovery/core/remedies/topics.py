"""What to do about topics: their settings, their replicas, and what cannot be saved or made again of them.

A command that changes a topic is given only where it is known whose topic it is, what its records are for, and that no savepoint or restore holds its settings
at the moment. Where one of these does not hold, the remedy says what comes first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.kafka_types import StoreKind, TopicPartition, TopicRole
from streams_recovery.core.remedies.remedy import KafkaTool, KafkaTools, Remedy, RemedyKind
from streams_recovery.core.words import shell, span

IN_SYNC, POLICY, LAG, UNCLEAN = "min.insync.replicas", "cleanup.policy", "min.compaction.lag.ms", "unclean.leader.election.enable"
REPLICAS: Final = 3
# A command of more partitions is no command that anybody reads.
MOST_PARTITIONS: Final = 60
# Bytes a second that a broker sends to new replicas, and takes of them: half of a network of one gigabit.
THROTTLE: Final = 50_000_000
# Kafka Streams deletes old windows and sessions by their age, and the records of no other store.
_BY_AGE: Final = frozenset({StoreKind.WINDOW, StoreKind.SESSION})

HELD = RemedyKind(id="topic-held", condition="A savepoint or a restore holds settings of the topic now, so nobody else may change it.")
UNATTRIBUTED = RemedyKind(id="topic-unattributed", condition="Nothing but its name says that the internal topic is the application's.")
CHANGELOG_POLICY = RemedyKind(
    id="topic-policy",
    condition="The changelog deletes by age alone, and the configuration says of which kind its store is: windows and sessions get "
    "`compact,delete`, all others `compact`.",
)
COMPACTED_SOONER = RemedyKind(
    id="topic-compaction-lag",
    condition="The configuration says that the store is no versioned one, or its changelog has the lag from the brokers only: Kafka Streams sets the lag "
    "of versioned stores, and history is lost without it.",
)
KEPT_LONGER = RemedyKind(id="topic-retention", condition="The input deletes by age, and sooner than savepoints and restores need.")
KEPT_BY_AGE = RemedyKind(
    id="topic-retention-bytes", condition="The input deletes by size and by age: without a limit of age nothing else would bound it."
)
REPARTITION_KEPT = RemedyKind(
    id="topic-repartition-retention",
    condition="The repartition topic is one of Kafka Streams, which deletes what it has read. Faust deletes nothing there.",
)
DELETIONS_KEPT = RemedyKind(
    id="topic-delete-retention", condition="The changelog is compacted, and loses the marks of deleted keys between two savepoints."
)
SMALLER_SEGMENTS = RemedyKind(id="topic-segments", condition="The changelog is compacted and large.")
CLEAN_ELECTION = RemedyKind(id="topic-election", condition="A replica that lacks records may become a leader of the topic.")
WRITTEN_SAFELY = RemedyKind(
    id="topic-min-insync", condition="As many replicas as are asked for remain when one broker is down: two of three or more, one of two."
)
MORE_REPLICAS = RemedyKind(
    id="topic-replicas",
    condition="More brokers are up than have the topic. New replicas go to racks that have none, and are copied with a limit.",
)
FEWER_REPLICAS = RemedyKind(id="restore-replicas", condition="The savepoint's topics have more replicas than brokers are up.")
LESS_IN_SYNC = RemedyKind(
    id="restore-min-insync", condition="A topic would ask for more replicas in sync than it gets: by its own setting, or by the brokers'."
)
SAVED_AGAIN = RemedyKind(id="topic-cut", condition="A log is shorter than the offsets that were seen in it.")
NO_AUTO_CREATE = RemedyKind(id="broker-auto-create", condition="The brokers create a topic when a client first names it.")
OWN_TIMES = RemedyKind(
    id="topic-timestamps", condition="The topic's state has the times of records, and the broker replaces them by its own."
)
STRANGE_HEADER = RemedyKind(id="record-header", condition="A record has a header that cannot be kept as it is.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAtHand:
    """A topic, and what has to be known before anybody changes it. ``store`` is the kind of a changelog's store. ``held``: a savepoint or a restore has put
    settings of its own on the topic. ``attributed``: it is known whose it is; always so of a topic that is not internal. ``replicas`` are the ids of the
    brokers that have each partition.
    """

    name: str
    role: TopicRole
    store: StoreKind
    held: bool
    attributed: bool
    replicas: tuple[tuple[int, ...], ...] = ()

    @property
    def copies(self) -> int:
        """Brokers that have a partition; the fewest, where partitions differ."""
        return min(map(len, self.replicas), default=0)


def in_sync_of(copies: int) -> int:
    """The replicas that should have a record before it counts as written: as many as remain when one broker is down, and never more than two."""
    return max(1, min(2, copies - 1))


def set_policy(tools: KafkaTools, topic: TopicAtHand) -> Remedy:
    """A changelog that is not compacted gets the policy that Kafka Streams gives it."""
    if topic.store is StoreKind.UNKNOWN:
        text = (
            "windows and sessions need compact,delete, and all other stores compact, or they lose state. Write the kind of the store under `stores`, and this "
            "advice has the command"
        )
        return _changed(tools, topic, Remedy(kind=CHANGELOG_POLICY, text=text))
    policy = "compact,delete" if topic.store in _BY_AGE else "compact"
    text = f"set {POLICY}={policy}, as Kafka Streams does for a {topic.store} store"
    if topic.store in _BY_AGE:
        text += ". Its retention.ms has to be a day longer than the store keeps its windows"
    return _changed(tools, topic, Remedy(kind=CHANGELOG_POLICY, text=text), (POLICY, policy))


def compact_sooner(tools: KafkaTools, topic: TopicAtHand, *, owners: bool) -> Remedy | None:
    """A changelog may be compacted at once. ``owners``: the lag is a setting of the topic, not the brokers'. None for a versioned store."""
    if topic.store is StoreKind.VERSIONED:
        return None
    if topic.store is StoreKind.UNKNOWN and owners:
        text = (
            f"leave it where the store is a versioned one: its history is lost without {LAG}. Otherwise write the kind of the store under `stores`, and this "
            "advice has the command"
        )
        return _changed(tools, topic, Remedy(kind=COMPACTED_SOONER, text=text))
    why = (
        f"it is a {topic.store} store, by the configuration"
        if topic.store is not StoreKind.UNKNOWN
        else "the brokers have it, not the topic"
    )
    return _changed(tools, topic, Remedy(kind=COMPACTED_SOONER, text=f"set {LAG}=0: {why}, so no history needs it"), (LAG, "0"))


def keep_longer(tools: KafkaTools, topic: TopicAtHand, *, milliseconds: int) -> Remedy:
    """An input keeps its records for at least so long."""
    text = f"keep them for {span(milliseconds / 1000)}; the brokers' disks need room for that"
    return _changed(tools, topic, Remedy(kind=KEPT_LONGER, text=text), ("retention.ms", str(milliseconds)))


def keep_by_age(tools: KafkaTools, topic: TopicAtHand, *, retention_ms: int | None) -> Remedy:
    """An input deletes by age only, where it has a limit of age."""
    if retention_ms is None or retention_ms < 0:
        text = (
            "nothing else bounds it (retention.ms=-1), so take the limit away only when it has a retention.ms that is long enough, and the brokers' disks have "
            "room for that. What is older is deleted then"
        )
        return _changed(tools, topic, Remedy(kind=KEPT_BY_AGE, text=text))
    text = f"let age alone bound it; the brokers' disks need room for all that comes within {span(retention_ms / 1000)}"
    return _changed(tools, topic, Remedy(kind=KEPT_BY_AGE, text=text), ("retention.bytes", "-1"))


def keep_repartition(tools: KafkaTools, topic: TopicAtHand, *, deletes_read: bool) -> Remedy:
    """A repartition topic keeps what was not read. ``deletes_read``: the application itself deletes what it has read."""
    if not deletes_read:
        text = "nobody deletes what was read from it, so its age has to: let retention.ms be longer than the application is ever down"
        return _changed(tools, topic, Remedy(kind=REPARTITION_KEPT, text=text))
    text = "set retention.ms=-1, as Kafka Streams does: it deletes what it has read"
    return _changed(tools, topic, Remedy(kind=REPARTITION_KEPT, text=text), ("retention.ms", "-1"))


def keep_deletions(tools: KafkaTools, topic: TopicAtHand, *, milliseconds: int) -> Remedy:
    """A changelog keeps the marks of deleted keys for at least so long."""
    text = f"keep them for {span(milliseconds / 1000)}"
    return _changed(tools, topic, Remedy(kind=DELETIONS_KEPT, text=text), ("delete.retention.ms", str(milliseconds)))


def smaller_segments(tools: KafkaTools, topic: TopicAtHand, *, size: int) -> Remedy:
    """A large changelog has segments of so many bytes."""
    text = f"set segment.bytes to {size >> 20} MiB; brokers then have more files open"
    return _changed(tools, topic, Remedy(kind=SMALLER_SEGMENTS, text=text), ("segment.bytes", str(size)))


def elect_cleanly(tools: KafkaTools, topic: TopicAtHand) -> Remedy:
    """No replica that lacks records becomes a leader."""
    text = f"set {UNCLEAN}=false; a partition of which no complete replica is up then waits for one"
    return _changed(tools, topic, Remedy(kind=CLEAN_ELECTION, text=text), (UNCLEAN, "false"))


def elect_cleanly_there() -> Remedy:
    """As before, of topics that a restore makes or a savepoint reads; `advise` has the commands."""
    return Remedy(kind=CLEAN_ELECTION, text=f"set {UNCLEAN}=false")


def stop_auto_create() -> Remedy:
    """Brokers that make a topic with their own partitions and settings. No broker takes this setting while it runs."""
    return Remedy(
        kind=NO_AUTO_CREATE, text="set auto.create.topics.enable=false in server.properties of every broker and restart them one by one"
    )


def keep_times(*, made: bool) -> Remedy:
    """Changelogs in which the broker replaces the times of what is written. ``made``: a restore makes them, with the setting that they had."""
    text = "set message.timestamp.type=CreateTime on these topics"
    if made:
        text += " after the restore: it keeps the times of what it loads, and then gives each topic the setting that it had"
    return Remedy(kind=OWN_TIMES, text=text)


def write_safely(tools: KafkaTools, topic: TopicAtHand, *, needed: int, racks: Mapping[int, str | None]) -> Remedy:
    """A topic takes a record when as many replicas have it as remain without one broker. ``needed`` are asked for now. Replicas come first where they alone end
    it, or where there will be more. ``racks`` has every broker that is up.
    """
    copies, wanted = topic.copies, min(REPLICAS, len(racks))
    if wanted <= copies or needed <= copies >= REPLICAS:
        value = in_sync_of(copies)
        return _changed(tools, topic, Remedy(kind=WRITTEN_SAFELY, text=f"set {IN_SYNC}={value}"), (IN_SYNC, str(value)))
    value = in_sync_of(wanted)
    more = add_replicas(tools, topic, racks=racks)
    if copies < needed <= value:
        return replace(more, text=f"do not lower {IN_SYNC}, {more.text}")
    setting = _changed(tools, topic, Remedy(kind=WRITTEN_SAFELY, text=""), (IN_SYNC, str(value)))
    if not setting.commands:
        return setting
    if needed <= copies:
        # Asked for before there are three, one broker that is down would stop every write.
        commands = (*more.commands, *setting.commands) if more.commands else ()
        return replace(more, text=f"{more.text}. Once all have them, set {IN_SYNC}={value}", commands=commands)
    return replace(more, text=f"set {IN_SYNC}={value}, then {more.text}", commands=(*setting.commands, *more.commands))


def safer_writes(*, copies: int) -> Remedy:
    """Topics that count a record as written with one replica, and have ``copies`` of more that are possible, two at least."""
    if copies >= REPLICAS:
        return Remedy(kind=WRITTEN_SAFELY, text=f"set {IN_SYNC}={in_sync_of(copies)} on these topics")
    return Remedy(kind=WRITTEN_SAFELY, text=f"give these topics a third replica first, then set {IN_SYNC}=2")


def more_replicas(*, brokers: int, made: bool) -> Remedy:
    """Internal topics that have one replica, or would get one where a restore has ``made`` them."""
    wanted = min(REPLICAS, brokers)
    if made:
        text = f"let the restore make {wanted} (restore.replication_factor: {wanted})"
    else:
        text = "add replicas to the topics that are there: `streams-recovery advise` has the commands"
    return Remedy(kind=MORE_REPLICAS, text=f"{text}, and set replication.factor={wanted} in the application for what it makes itself")


def add_replicas(tools: KafkaTools, topic: TopicAtHand, *, racks: Mapping[int, str | None]) -> Remedy:
    """As many replicas of a topic as brokers can hold, up to three. ``racks`` has every broker that is up."""
    wanted = min(REPLICAS, len(racks))
    own = (
        f"set replication.factor={wanted} in the application for what Kafka Streams makes from now on, and " if topic.role.internal else ""
    )
    if len(topic.replicas) > MOST_PARTITIONS:
        text = (
            f"{own}write a plan with {wanted} brokers for each partition for {KafkaTool.REASSIGN_PARTITIONS}, and carry it out in parts, each with "
            "--throttle"
        )
        return _changed(tools, topic, Remedy(kind=MORE_REPLICAS, text=text))
    text = (
        f"{own}add replicas: the first command writes the plan, the second carries it out and shows the placement before it, which is the way back. Repeat the "
        "third until all is complete: it takes the limit of the copies away. Where they never end, give the second one a larger --throttle, and --additional"
    )
    plan = {
        "version": 1,
        "partitions": [
            {"topic": topic.name, "partition": number, "replicas": list(brokers)}
            for number, brokers in enumerate(widened(topic.replicas, racks, wanted))
        ],
    }
    file = f"add-replicas-{topic.name}.json"
    reassign = ("--reassignment-json-file", file)
    found = _changed(tools, topic, Remedy(kind=MORE_REPLICAS, text=text))
    if found.kind is not MORE_REPLICAS:
        return found
    return replace(
        found,
        commands=(
            f"echo {shell(json.dumps(plan, separators=(',', ':')))} > {shell(file)}",
            tools.command(KafkaTool.REASSIGN_PARTITIONS, *reassign, "--execute", "--throttle", str(THROTTLE)),
            tools.command(KafkaTool.REASSIGN_PARTITIONS, *reassign, "--verify"),
        ),
    )


def widened(placed: Sequence[Sequence[int]], racks: Mapping[int, str | None], wanted: int) -> tuple[tuple[int, ...], ...]:
    """The placement with ``wanted`` replicas of each partition. Replicas that are there stay, and the leader stays first. New ones go to racks that have none
    of the partition, and there to the brokers with the fewest. ``racks`` has every broker that is up, None for a broker that does not tell its rack.
    """
    load = Counter(dict.fromkeys(racks, 0))
    load.update(broker for replicas in placed for broker in replicas)
    found = []
    for replicas in placed:
        more = list(replicas)
        while len(more) < wanted and (free := [broker for broker in sorted(racks) if broker not in more]):
            taken = {racks.get(broker) for broker in more} - {None}
            best = min(free, key=lambda broker: (racks[broker] in taken, load[broker], broker))
            load[best] += 1
            more.append(best)
        found.append(tuple(more))
    return tuple(found)


def fit_brokers(*, wanted: int, brokers: int) -> Remedy:
    """A restore of topics with more replicas than there are brokers."""
    text = f"bring up {wanted - brokers} more, or let a restore make topics with {brokers} (restore.replication_factor: {brokers}, or that of the site)"
    return Remedy(kind=FEWER_REPLICAS, text=text)


def fit_in_sync(*, needed: int, copies: int, own: bool, brokers: int) -> Remedy:
    """A restore of topics that need so many replicas in sync, and get so many ``copies``. ``own``: the saved topics themselves have the setting, so the
    brokers' does not count.
    """
    up, made = f"bring up {needed - brokers} more brokers, and " if needed > brokers else "", max(needed, min(REPLICAS, brokers))
    text = f"{up}let the restore make {made} replicas (restore.replication_factor: {made}), or set {IN_SYNC}={in_sync_of(copies)} on the topics afterwards"
    if own:
        text += ": the savepoint itself has that setting of them, so a change of the brokers' does not help"
    return Remedy(kind=LESS_IN_SYNC, text=text)


def save_again(tp: TopicPartition) -> Remedy:
    """A log ends before what was seen in it."""
    text = (
        f"find out what happened to {tp.topic}, then run `streams-recovery backup` again: it copies all of a log that is another one, and refuses a changelog "
        "that has lost records. To have those back, restore an older savepoint"
    )
    return Remedy(kind=SAVED_AGAIN, text=text)


def strange_header(topic: str, *, changelog: bool) -> Remedy:
    """A record that cannot be archived."""
    if changelog:
        text = (
            "find out who writes such headers. No savepoint can leave a changelog out, and its records must not be deleted: they are state. Correct the "
            "application, let it write the key of that record again, and the log cleaner removes the record"
        )
    else:
        text = (
            f"find out who writes such headers; then delete the records of {topic} up to this one where nobody needs them, or leave the topic out of "
            "savepoints (topics.exclude, which does not count for inputs and globals with backup.survive_cluster_loss)"
        )
    return Remedy(kind=STRANGE_HEADER, text=text)


def _changed(tools: KafkaTools, topic: TopicAtHand, remedy: Remedy, *settings: tuple[str, str]) -> Remedy:
    """The remedy with the command that sets these; or what comes first, where the topic must not be changed now."""
    if not topic.attributed:
        text = (
            "nothing but its name says whose topic this is. Name its store under `stores` or the topic under topics.owned, or under topics.foreign "
            "where it is another application's, before anybody changes it"
        )
        return Remedy(kind=UNATTRIBUTED, text=text)
    if topic.held:
        text = (
            "a savepoint or a restore holds settings of this topic now: wait for its end, and ask for advice again. What a dead run has left, the next "
            "savepoint puts back"
        )
        return Remedy(kind=HELD, text=text)
    text = remedy.text
    if topic.role in (TopicRole.INPUT, TopicRole.GLOBAL) and text:
        text = f"{text}. Ask whoever owns the topic first, where that is somebody else"
    if not settings:
        return replace(remedy, text=text)
    entity = ("--alter", "--entity-type", "topics", "--entity-name", topic.name)
    added = ",".join(f"{name}=[{value}]" if "," in value else f"{name}={value}" for name, value in settings)
    return replace(remedy, text=text, commands=(tools.command(KafkaTool.CONFIGS, *entity, "--add-config", added),))


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    tools, racks = KafkaTools("broker-1:9092", secured=True), {1: "a", 2: "a", 3: "b"}
    changelog = TopicAtHand(
        name="orders-totals-changelog",
        role=TopicRole.CHANGELOG,
        store=StoreKind.KEY_VALUE,
        held=False,
        attributed=True,
        replicas=((1,), (2,)),
    )
    windows, unknown = replace(changelog, store=StoreKind.WINDOW), replace(changelog, store=StoreKind.UNKNOWN)
    read = replace(unknown, name="orders", role=TopicRole.INPUT, replicas=((1, 2, 3),))
    sooner = compact_sooner(tools, unknown, owners=True), compact_sooner(tools, changelog, owners=True)
    return (
        set_policy(tools, changelog),
        set_policy(tools, windows),
        set_policy(tools, unknown),
        set_policy(tools, replace(changelog, held=True)),
        set_policy(tools, replace(changelog, attributed=False)),
        *(one for one in sooner if one is not None),
        keep_longer(tools, read, milliseconds=604_800_000),
        keep_by_age(tools, read, retention_ms=604_800_000),
        keep_by_age(tools, read, retention_ms=-1),
        keep_repartition(tools, replace(unknown, name="orders-by-item-repartition", role=TopicRole.REPARTITION), deletes_read=True),
        keep_deletions(tools, changelog, milliseconds=172_800_000),
        smaller_segments(tools, changelog, size=64 << 20),
        elect_cleanly(tools, read),
        elect_cleanly_there(),
        stop_auto_create(),
        *(keep_times(made=made) for made in (False, True)),
        write_safely(tools, read, needed=1, racks=racks),
        more_replicas(brokers=3, made=True),
        more_replicas(brokers=3, made=False),
        *(safer_writes(copies=copies) for copies in (2, 3)),
        write_safely(tools, changelog, needed=2, racks=racks),
        write_safely(tools, replace(changelog, replicas=((1, 2), (2, 3))), needed=1, racks=racks),
        add_replicas(tools, replace(read, replicas=((1,),)), racks=racks),
        fit_brokers(wanted=3, brokers=2),
        *(fit_in_sync(needed=3, copies=2, own=own, brokers=3) for own in (True, False)),
        save_again(TopicPartition("orders", 0)),
        strange_header("orders", changelog=False),
        strange_header("orders-totals-changelog", changelog=True),
    )
