"""What to do before a restore or a failover: about the group, and about inputs and disks of the cluster that the application is to run on."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.remedies.remedy import KafkaTool, KafkaTools, Remedy, RemedyKind
from streams_recovery.core.remedies.savepoints import SURVIVES

GROUP_TRAP: Final = RemedyKind(
    id="group-trap",
    condition="The group of the savepoint is of the streams protocol and is not there, and the brokers are of 4.1 or 4.2.0, or of 4.2 and do not tell which.",
)
INPUT_CARRIED: Final = RemedyKind(
    id="site-input", condition="An input or global topic is not at that site, and its records are in no savepoint."
)
MORE_PARTITIONS: Final = RemedyKind(
    id="site-partitions-added",
    condition="The input has fewer partitions at that site than in the savepoint, and was never written to there: no record is where its key does not belong.",
)
MIRRORED_AGAIN: Final = RemedyKind(
    id="site-partitions-mirrored",
    condition="The input has more partitions at that site than in the savepoint, or fewer and it was written to there: Kafka takes no partition away, and a "
    "record stays in the partition that it is in.",
)

OTHER_VERSION: Final = RemedyKind(
    id="restore-partitions", condition="An internal topic has another number of partitions than in the savepoint."
)
UNREAD: Final = RemedyKind(
    id="restore-unread-input",
    condition="The application is of a kind that may leave out or repeat input when it starts without local state.",
)
WROTE_LOG: Final = RemedyKind(
    id="outputs-log", condition="The record says that a clone took over the outputs, and what is seen contradicts it."
)
ONE_WRITER: Final = RemedyKind(
    id="outputs-one-writer",
    condition="The record says that the application is the live clone of another one, and what is seen contradicts it.",
)
ROLL_BACK: Final = RemedyKind(
    id="outputs-roll-back",
    condition="A clone writes the outputs: of this application, or this one those of the application that the state is of.",
)
TELL_READERS: Final = RemedyKind(
    id="outputs-again", condition="Outputs were written to since the savepoint, and their input is processed again after the restore."
)
EXACT_ONE: Final = RemedyKind(id="restore-label", condition="The savepoint is not exact, and is restored only when a person allows that.")
LOOK_INSIDE: Final = RemedyKind(id="restore-replaces", condition="Topics that the restore replaces hold records.")
REPLICAS_THERE: Final = RemedyKind(
    id="site-replicas", condition="The topics get fewer replicas at that site than they had, because it has fewer brokers."
)
ROOM_THERE: Final = RemedyKind(id="room-brokers", condition="The brokers' disks have less free than twice what the restore writes there.")


def avoid_group_trap(*, certain: bool) -> Remedy:
    """``certain``: every broker of that release has the defect. Brokers do not tell 4.2.0 from 4.2.1."""
    first = "" if certain else "look up the release in the brokers' logs (`Kafka version`), and nothing is to do with 4.2.1. Otherwise "
    return Remedy(
        kind=GROUP_TRAP,
        text=f"{first}upgrade the brokers to 4.2.1 or newer, one after the other, which keeps topics and groups, and restore then. Do not start the "
        "application to get its group back: without offsets it begins where auto.offset.reset says, and writes outputs again",
    )


def carry_inputs() -> Remedy:
    """Inputs that are not there."""
    return Remedy(
        kind=INPUT_CARRIED,
        text="mirror these topics to that cluster, name them in topic_map of the site if they have other names there, or set backup.survive_cluster_loss: true "
        "and take a savepoint while the old cluster has them",
        setting=SURVIVES,
    )


def match_partitions(tools: KafkaTools, topic: str, *, there: int, saved: int, written: bool) -> Remedy:
    """An input with another number of partitions at the site. ``written``: it has, or had, records there."""
    if there < saved and not written:
        return Remedy(
            kind=MORE_PARTITIONS,
            text=f"give it {saved}: it was never written to there",
            commands=(tools.command(KafkaTool.TOPICS, "--alter", "--topic", topic, "--partitions", str(saved)),),
        )
    again = f"mirror it again from its beginning, into a topic that is created with {saved} partitions, and name that one in topic_map of the site"
    if there < saved:
        return Remedy(
            kind=MIRRORED_AGAIN,
            text=f"{again}. More partitions for this one do not help: its records stay in the partitions that they are in",
        )
    return Remedy(
        kind=MIRRORED_AGAIN,
        text=f"if the input has got {there} partitions since that savepoint, take one now and fail over with it; otherwise {again}. Kafka takes no partition "
        "away",
    )


def deploy_its_version() -> Remedy:
    """Internal topics that the restored ones would not fit."""
    return Remedy(
        kind=OTHER_VERSION,
        text="deploy the version of the application that the savepoint was taken of, and let the topic be replaced; or choose another savepoint",
    )


def guard_unread_input(needs: str) -> Remedy:
    """``needs`` is what an application of this kind needs, so that no input is lost when it starts."""
    return Remedy(
        kind=UNREAD,
        text=f"give the application what it needs: {needs}. Nobody sees from outside whether it has that, so every plan says this",
    )


def find_writer_of_log(log: str) -> Remedy:
    """A record that is not true, and blocks no restore. ``log`` is its place in the repository."""
    return Remedy(
        kind=WROTE_LOG,
        text=f"find out who writes to {log} of the repository besides this program. The record keeps nobody from a restore or a start",
    )


def leave_one_writer(application_id: str) -> Remedy:
    """Two that might write the same outputs."""
    return Remedy(
        kind=ONE_WRITER,
        text=f"roll {application_id} back, which leaves the application that it is a clone of as the one that writes. If {application_id} is to write, "
        "start it and cut it over then",
    )


def roll_clone_back() -> Remedy:
    """An application whose outputs, or whose state, are another one's."""
    return Remedy(kind=ROLL_BACK, text="roll the clone back first")


def tell_readers() -> Remedy:
    """Results that come twice."""
    return Remedy(kind=TELL_READERS, text="tell those who read them: the same results come twice, behind those that are there")


def choose_exact() -> Remedy:
    """A savepoint that needs an option."""
    return Remedy(kind=EXACT_ONE, text="choose an exact one, or accept that with this option")


def look_before_replacing() -> Remedy:
    """Topics with records that are replaced."""
    return Remedy(kind=LOOK_INSIDE, text="they are saved first; see what is in them before you allow it")


def more_brokers_there(*, in_sync: bool) -> Remedy:
    """A site that is smaller. ``in_sync``: it is about how many replicas have a record before it counts as written, which follows from how many there are."""
    if in_sync:
        text = "give that cluster more brokers. Without them nothing is to do before the move: `advise` says afterwards which topics to give replicas"
        return Remedy(kind=REPLICAS_THERE, text=text)
    return Remedy(kind=REPLICAS_THERE, text="give that cluster more brokers, or set replication_factor of the site to no more than it has")


def make_room_there() -> Remedy:
    """The disks of the brokers that a restore writes to."""
    return Remedy(kind=ROOM_THERE, text="give the brokers of that cluster more room")


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    tools = KafkaTools("broker:9092", secured=False)
    return (
        *(avoid_group_trap(certain=certain) for certain in (True, False)),
        carry_inputs(),
        deploy_its_version(),
        guard_unread_input("a transactional consumer"),
        find_writer_of_log("orders/ownership/"),
        leave_one_writer("orders"),
        roll_clone_back(),
        tell_readers(),
        choose_exact(),
        look_before_replacing(),
        *(more_brokers_there(in_sync=in_sync) for in_sync in (False, True)),
        make_room_there(),
        *(
            match_partitions(tools, "orders", there=there, saved=4, written=written)
            for there, written in ((2, False), (2, True), (6, True))
        ),
    )
