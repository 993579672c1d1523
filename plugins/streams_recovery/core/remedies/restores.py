"""What to do before a restore or a failover: about the group, and about inputs at the cluster that the application is to run on."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.remedies.remedy import KafkaTool, KafkaTools, Remedy, RemedyKind

GROUP_TRAP: Final = RemedyKind(
    id="group-trap",
    condition="The group of the savepoint is of the streams protocol and is not there now, and the brokers are of 4.1, 4.2.0 or perhaps 4.2.0.",
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


_TOOLS: Final = KafkaTools("broker:9092", secured=False)
EXAMPLES: Final = (
    *(avoid_group_trap(certain=certain) for certain in (True, False)),
    carry_inputs(),
    *(match_partitions(_TOOLS, "orders", there=there, saved=4, written=written) for there, written in ((2, False), (2, True), (6, True))),
)
