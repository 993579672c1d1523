"""What to do about disks that are nearly full."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.remedies.remedy import Remedy, RemedyKind

REPOSITORY: Final = RemedyKind(
    id="room-repository", condition="The disk of the repository has less free than twice what is archived has in its logs."
)
SPARK: Final = RemedyKind(
    id="room-spark", condition="Spark runs on this machine, and the disk that it keeps data on has less than 1 GiB free."
)
BROKERS: Final = RemedyKind(id="room-brokers", condition="The brokers' disks have less free than twice what the restore writes there.")


def make_room_for_copy() -> Remedy:
    """The disk of a repository that is a directory."""
    return Remedy(kind=REPOSITORY, text="give that disk more room, or expire savepoints")


def make_room_for_spark() -> Remedy:
    """The disk on which Spark keeps what does not fit into memory."""
    return Remedy(kind=SPARK, text="make room there, or let spark.local.dir name another disk")


def make_room_there() -> Remedy:
    """The disks of the brokers that a restore writes to."""
    return Remedy(kind=BROKERS, text="give the brokers of that cluster more room")


EXAMPLES: Final = (make_room_for_copy(), make_room_for_spark(), make_room_there())
