"""Next steps for savepoints: how the application is held, which topics are saved, where there is room, and whose records are trusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streams_recovery.core.remedies.remedy import Remedy, RemedyKind

CHOOSE_HOLD: Final = RemedyKind(
    id="savepoint-hold",
    condition="The configuration does not say how the application is held, and it cannot be paused, so it is stopped for each savepoint.",
)
HOLD_NOTHING: Final = RemedyKind(
    id="savepoint-live",
    condition="The application is held for savepoints, and a look at the cluster has found all that a savepoint by the names of transactions needs.",
)
ATTRIBUTE: Final = RemedyKind(
    id="savepoint-attribution", condition="A topic is called like an internal topic of the application, and nothing else says whose it is."
)
SURVIVE: Final = RemedyKind(
    id="savepoint-cluster-loss",
    condition="Records of inputs or global topics are in no savepoint, and would be lost together with the cluster.",
)
CORRECT_PATTERN: Final = RemedyKind(
    id="savepoint-include", condition="A pattern of topics.include fits no input, output or global topic of the application."
)
INCLUDE_OUTPUT: Final = RemedyKind(
    id="savepoint-output",
    condition="A compacted output is not in savepoints, and who reads it as a table needs its keys after the loss of the cluster.",
)
KEEP_OUTPUT: Final = RemedyKind(
    id="savepoint-output-emptied",
    condition="A restore makes an output anew, and the savepoint has no records of it: it is empty afterwards.",
)
OWN_GUARANTEE: Final = RemedyKind(
    id="savepoint-guarantee",
    condition="The configuration says exactly_once_v2, and records of changelogs were written without a transaction.",
)
AFTER_PARTITIONS: Final = RemedyKind(
    id="savepoint-partitions",
    condition="An input has got partitions since the newest savepoint, so no older one can be restored beside it.",
)
CLOCK: Final = RemedyKind(id="savepoint-clock", condition="The time in a savepoint's id is later than the time now.")
MIRROR_OFTEN: Final = RemedyKind(
    id="mirror-schedule",
    condition="Inputs are archived as they come, and the second place is filled behind savepoints only.",
)
ROOM_FOR_FILES: Final = RemedyKind(
    id="room-repository", condition="The disk of the repository has less free than twice what is archived has in its logs."
)
ROOM_FOR_SPARK: Final = RemedyKind(
    id="room-spark", condition="Spark runs on this machine, and the disk that it keeps data on has less than 1 GiB free."
)
SEAL: Final = RemedyKind(id="repository-seal", condition="The repository is written without seals.")
SURVIVES: Final = "backup.survive_cluster_loss: true"
_OFTEN = "storage.mirror.schedule: '*/5 * * * *'"
_STOP, _LIVE = "backup.consistency.mode: stop", "backup.consistency.mode: live"


def choose_hold() -> Remedy:
    """An application that is stopped for a savepoint because its configuration chooses no mode."""
    return Remedy(
        kind=CHOOSE_HOLD,
        text="set backup.consistency.mode to stop if that is intended; otherwise use live, or make it possible to pause the application",
        setting=_STOP,
    )


def mirror_often() -> Remedy:
    """A second place that is filled more seldom than the archive grows."""
    return Remedy(
        kind=MIRROR_OFTEN,
        text="give the second place times of its own, as often as the loss of the store may cost input",
        setting=_OFTEN,
    )


def hold_nothing() -> Remedy:
    """An application that is held, and need not be."""
    return Remedy(
        kind=HOLD_NOTHING,
        text="set backup.consistency.mode: live, and fallback: pause, or stop where it cannot be paused. A savepoint is then exact and holds nothing; the "
        "application is held as now where a look finds no names",
        setting=_LIVE,
    )


def attribute(application_id: str) -> Remedy:
    """Topics that may be another application's."""
    return Remedy(
        kind=ATTRIBUTE,
        text=f"name the stores of {application_id} under `stores`, its other topics under topics.owned, and those of another application under topics.foreign",
    )


def survive_cluster_loss() -> Remedy:
    """Savepoints without the records of what the application reads."""
    return Remedy(kind=SURVIVE, text=f"set {SURVIVES}, unless these topics are kept safe in another way", setting=SURVIVES)


def correct_pattern() -> Remedy:
    """A pattern that means no topic."""
    return Remedy(kind=CORRECT_PATTERN, text="correct it, or name the topic in topics.inputs, topics.outputs or topics.globals")


def include_output() -> Remedy:
    """An output that others may read as a table."""
    return Remedy(
        kind=INCLUDE_OUTPUT, text="name it in topics.include, unless nobody needs a key that the application does not write again"
    )


def keep_output() -> Remedy:
    """An output that a restore makes anew."""
    return Remedy(kind=KEEP_OUTPUT, text="name an output in topics.include while it is there, and savepoints have its records")


def own_guarantee() -> Remedy:
    """A program that works at least once."""
    return Remedy(
        kind=OWN_GUARANTEE,
        text="set application.guarantee to at_least_once, or what the program has",
        setting="application.guarantee: at_least_once",
    )


def save_after_partitions() -> Remedy:
    """An input with more partitions than in the newest savepoint."""
    return Remedy(kind=AFTER_PARTITIONS, text="take a savepoint now, and keep the older ones for what rebuilds from their inputs")


def correct_clock(records: Iterable[str]) -> Remedy:
    """Savepoints of a time that has not come. ``records`` are the keys of the two objects that make each of them one."""
    return Remedy(
        kind=CLOCK,
        text="find out which clock was wrong or who has made them up. They may stay. One that nobody needs is gone when "
        f"both of its objects are removed from the store: {', '.join(records)}. With one of the two left, expiry removes no file any more",
    )


def seal_records() -> Remedy:
    """Records that anybody who can write to the store could have made up."""
    return Remedy(
        kind=SEAL,
        text="make keys with `streams-recovery seal-key FILE`, set storage.seal while nothing runs, and vouch for the records that are there with "
        "`streams-recovery seal NAME`: nothing uses them before",
    )


def make_room_for_copy() -> Remedy:
    """The disk of a repository that is a directory."""
    return Remedy(
        kind=ROOM_FOR_FILES,
        text="give that disk more room. To expire savepoints gives room after retention.grace_days: the first expiry behind these removes their files",
    )


def make_room_for_spark(setting: str) -> Remedy:
    """The disk on which Spark keeps what does not fit into memory. ``setting`` is what names it: Spark looks at no other then."""
    return Remedy(kind=ROOM_FOR_SPARK, text=f"make room there, or let {setting} name another disk")


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    return (
        choose_hold(),
        hold_nothing(),
        mirror_often(),
        attribute("orders"),
        survive_cluster_loss(),
        correct_pattern(),
        include_output(),
        keep_output(),
        own_guarantee(),
        save_after_partitions(),
        correct_clock(
            f"orders/{one}"
            for one in ("savepoints/20280103T040244Z-28052896c0/manifest.json.zst", "published/20280103T040244Z-28052896c0.json")
        ),
        seal_records(),
        make_room_for_copy(),
        make_room_for_spark("spark.local.dir"),
    )
