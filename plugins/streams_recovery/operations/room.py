"""Whether the disks have room for a savepoint or a restore: those that can be asked from here. Changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import gettempdir

from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.facts import TopicFacts
from streams_recovery.core.checks.runs import ROOM, Room
from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused
from streams_recovery.core.preflight.checks import bytes_to_make
from streams_recovery.core.preflight.findings import PreflightFinding, as_findings, warning
from streams_recovery.core.remedies.remedy import as_refused
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.engine.master import spark_defaults
from streams_recovery.operations.context import RecoveryContext


def space_of_brokers(
    recovery: RecoveryContext, images: Mapping[str, TopicImage], described: Collection[str]
) -> tuple[PreflightFinding, ...]:
    """Findings about the disks of the brokers that a restore writes to."""
    try:
        found = {(one.broker, one.path): one.free_bytes for one in recovery.cluster.log_dirs({})}
    except Refused as error:
        return (warning("space", f"nobody can tell whether there is room for the state: {error.reason}", as_refused(error.next_step)),)
    free = [one for one in found.values() if one is not None]
    return as_findings(ROOM.ask(Occasion.RESTORE, Room.for_topics(bytes_to_make(images, described), sum(free)))) if free else ()


def room_here(recovery: RecoveryContext, facts: Mapping[str, TopicFacts], archived: Collection[str]) -> tuple[PreflightFinding, ...]:
    """Findings about the disks of this machine: of a repository in a directory, and of a Spark that runs here."""
    found: tuple[PreflightFinding, ...] = ()
    location = recovery.repository.location
    free = None if location.backend != "filesystem" or location.path is None else _free(Path(location.path))
    partitions = {name: facts[name].partitions for name in archived if name in facts}
    if free is not None and partitions:
        try:
            disks = recovery.cluster.log_dirs(partitions)
        except RecoveryError:
            # Without the right to ask nothing is known.
            disks = ()
        needed = sum(size // max(1, facts[name].copies) for disk in disks for name, size in disk.topics.items())
        found += as_findings(ROOM.ask(Occasion.SAVEPOINT, Room.for_copy(needed, free, first=not recovery.savepoints.ids())))
    return (*found, *_spark_room(recovery))


def _spark_room(recovery: RecoveryContext) -> tuple[PreflightFinding, ...]:
    try:
        if not recovery.spark_master().startswith("local"):
            return ()
        named = (variable := os.environ.get("SPARK_LOCAL_DIRS")) or spark_defaults().get("spark.local.dir") or gettempdir()
    except (NotFound, ConfigInvalid):
        return ()
    rooms = {one: room for one in named.split(",") if (room := _free(Path(one))) is not None}
    setting = "SPARK_LOCAL_DIRS" if variable else "spark.local.dir"
    facts = (Room.for_spark(one, free, setting=setting) for one, free in rooms.items())
    return as_findings(found for one in facts for found in ROOM.ask(Occasion.SAVEPOINT, one))


def _free(directory: Path) -> int | None:
    """The bytes that are free where a directory is, or will be created; None if unknown."""
    there = next((one for one in (directory, *directory.parents) if one.exists()), None)
    try:
        return None if there is None else shutil.disk_usage(there).free
    except OSError:
        return None
