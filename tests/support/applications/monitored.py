"""Looks at a small application as the monitor takes them, now or so much later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams_recovery.core.status.report import StatusReport
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.operations.status import log as status_log
from streams_recovery.operations.status import look as status_look
from streams_recovery.operations.status.stored import limits as limits_of
from tests.support.applications.small import Small, configured_for

# With this a look finds nothing about the disk that the tests run on, however full it is.
ANY_DISK = {"disk_free": 0}

ALWAYS = ("application-down", "not-sealed")


def looked(recovery: RecoveryContext, **limits: Any) -> StatusReport:
    """A look, stored as the monitor stores it, with these ``limits`` in place of those that are the same for every application. How fast the disk fills that
    the tests run on is no finding.
    """
    earlier = status_log.newest(recovery.repository, recovery.layout)
    judged_by = replace(limits_of(recovery), **{"disk_full_within": 1.0, **limits})
    report = status_look.observe(recovery, earlier, judged_by=judged_by)
    assert status_log.record(recovery, report, earlier)
    return report


def causes(recovery: RecoveryContext, **limits: Any) -> list[str]:
    """What a look with these ``limits`` finds, besides what is so of every small application: it is down, so that savepoints of it are exact, and its
    repository has no seal.
    """
    return sorted(one.cause for one in looked(recovery, **limits).findings if one.kind not in ALWAYS)


def at(recovery: RecoveryContext, hours: float) -> RecoveryContext:
    """The same, so much later."""
    return replace(recovery, clock=lambda: wall_clock() + round(hours * 3_600_000))


def limited(small: Small, **limits: object) -> RecoveryContext:
    """With these limits of its configuration; for disks only those that are given."""
    return configured_for(small, monitor={"limits": {**ANY_DISK, **limits}})
