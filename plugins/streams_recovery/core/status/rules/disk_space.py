"""Disks that are nearly full, or will be soon: the repository's, the brokers', those of the local state."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.status.facts import BROKER, ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.report import DiskStatus
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.status.trend import per_second
from streams_recovery.core.words import size, span

SOON, LOW = "disk-full-soon", "disk-space-low"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for disk in observed.disks.disks if observed.disks else ():
        left = seconds_left(observed, disk)
        if left is not None and left < limits.disk_full_within:
            yield finding(
                SOON,
                Severity.CRITICAL,
                f"the disk of {disk.name} is full in {span(left)} if it fills as it did lately; {size(disk.free_bytes)} are free",
                subject=disk.name,
                numbers={"seconds_left": left, "limit_seconds": limits.disk_full_within, "free_bytes": float(disk.free_bytes)},
            )
        elif disk.free_bytes < limits.disk_free * disk.total_bytes:
            yield finding(
                LOW,
                Severity.WARNING,
                f"the disk of {disk.name} has {size(disk.free_bytes)} free of {size(disk.total_bytes)}",
                subject=disk.name,
                numbers={"free_bytes": float(disk.free_bytes), "total_bytes": float(disk.total_bytes), "limit": limits.disk_free},
            )


def seconds_left(observed: ObservedApplication, disk: DiskStatus) -> float | None:
    """Until the disk is full, None when nothing tells, or it does not fill."""
    slope = per_second(observed.history, lambda point: point.free_bytes.get(disk.name), now=observed.now)
    return None if slope is None or slope >= 0 else disk.free_bytes / -slope


def _stays(observed: ObservedApplication, found: StatusFinding) -> bool:
    return found.subject.startswith(BROKER) and observed.disks is not None and not observed.disks.brokers_seen


RULE = Rule(kinds=(SOON, LOW), parts=(PartName.DISKS,), find=_find, stays=_stays)
