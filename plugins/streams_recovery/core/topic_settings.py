"""What settings of topics mean: which belong to the data, and come along with it, and which to the cluster where the topic was."""

from __future__ import annotations

from typing import Final

# Named for the place: brokers that hold its replicas back, and records that lie in the remote storage of one cluster.
_OF_THE_PLACE: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)
# Kafka has no setting of a topic that begins like this: a vendor's own, about its placement and storage.
_OF_A_VENDOR: Final = ("confluent.", "redpanda.", "aiven.", "inkless.", "diskless.")


def of_the_place(name: str) -> bool:
    """True for a setting that says something about the cluster that the topic was on, and nothing about its records. All others come back with a topic."""
    return name in _OF_THE_PLACE or name.startswith(_OF_A_VENDOR)
