"""Disks that an application fills: the repository's, the brokers', those of local state where it is on this machine. Reads only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.status.facts import BROKER, DiskFacts
from streams_recovery.core.status.report import DiskStatus
from streams_recovery.operations.context import RecoveryContext


@dataclass(frozen=True, slots=True, kw_only=True)
class DisksSeen:
    """What could be seen, the bytes of local state (None where it is elsewhere), and why the brokers' disks could not."""

    facts: DiskFacts
    state_bytes: int | None
    problem: str | None


def disks_seen(recovery: RecoveryContext, partitions: Mapping[str, int] | None) -> DisksSeen:
    """All disks. ``partitions`` are those of the application's topics, None when the cluster was not seen."""
    disks, topics, problem = [*_repository(recovery), *_state_disks(recovery)], dict[str, int](), None
    if partitions is None:
        problem = "the cluster was not seen, so its disks were not either"
    else:
        try:
            for found in recovery.cluster.log_dirs(partitions):
                for name, size in found.topics.items():
                    topics[name] = topics.get(name, 0) + size
                if found.total_bytes is not None and found.free_bytes is not None:
                    name = f"{BROKER}{found.broker} {found.path}"
                    disks.append(DiskStatus(name=name, total_bytes=found.total_bytes, free_bytes=found.free_bytes))
        except RecoveryError as error:
            problem = error.reason
    return DisksSeen(
        facts=DiskFacts(disks=tuple(disks), topic_bytes=topics, brokers_seen=problem is None),
        state_bytes=_state_bytes(recovery),
        problem=problem,
    )


def _repository(recovery: RecoveryContext) -> Iterator[DiskStatus]:
    location = recovery.repository.location
    if location.backend == "filesystem" and location.path is not None:
        yield from _disk("repository", Path(location.path))


def _state_disks(recovery: RecoveryContext) -> Iterator[DiskStatus]:
    for name, directory in _state_directories(recovery).items():
        yield from _disk(f"state {name}", directory)


def _disk(name: str, directory: Path) -> Iterator[DiskStatus]:
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        # It is made with the first savepoint, or with the first start.
        return
    yield DiskStatus(name=name, total_bytes=usage.total, free_bytes=usage.free)


def _state_directories(recovery: RecoveryContext) -> dict[str, Path]:
    process = recovery.config.runs.process if recovery.config.runs.kind == "process" else None
    return {instance.name: Path(instance.state_directory) for instance in process.instances} if process is not None else {}


def _state_bytes(recovery: RecoveryContext) -> int | None:
    own = [path for directory in _state_directories(recovery).values() if (path := directory / recovery.application_id).is_dir()]
    return sum(map(_size, own)) if own else None


def _size(directory: Path) -> int:
    """Bytes of all files below. RocksDB makes and removes them meanwhile."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_size
            except OSError:
                continue
    return total
