"""The other sites of an application, as the monitor sees them: fenced sites at each look, possible targets of a failover once a day."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from streams_recovery.core.errors import LockHeld, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.preflight.findings import PreflightSeverity
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.sites import PRIMARY, Fence
from streams_recovery.core.status.report import FencedSite, SitesStatus, StandbySite
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.preflight import before_failover
from streams_recovery.operations.renewed_lock import held_lock

LOGGER = logger("streams_recovery.operations.status.sites")
# A standby site that is lost costs the monitor some calls without an answer, so it is asked once a day.
_STANDBY_MS: Final = 86_400_000


def tend_fences(recovery: RecoveryContext) -> dict[str, FencedSite]:
    """Look at every fenced site, and stop what is left at one that answers again: under the application's lock, if that is free. Returns the sites that are
    fenced still.
    """
    if recovery.sites.names == (PRIMARY,):
        return {}
    try:
        entry = recovery.sites.entry()
        found = {fence.site: _looked_at(recovery, fence) for fence in (entry.fences if entry is not None else ())}
        if any(one.problem is None for one in found.values()):
            found = _lifted(recovery, found)
    except RecoveryError as error:
        LOGGER.warning("the fenced sites of %s could not be looked at: %s", recovery.application_id, error.reason)
        return {}
    return found


def _looked_at(recovery: RecoveryContext, fence: Fence) -> FencedSite:
    """The site as it is now. ``problem`` is None if everything answers."""
    here = FencedSite(site=fence.site, since=fence.since, run=fence.run, running=(), problem=None)
    if fence.site not in recovery.sites.names:
        return replace(here, problem="it is not configured any more")
    seen = recovery.sites.look(fence.site)
    return replace(here, running=seen.in_use, problem="; ".join(seen.unseen) or None)


def _lifted(recovery: RecoveryContext, found: dict[str, FencedSite]) -> dict[str, FencedSite]:
    def held_up(why: str, lifted: Collection[str] = ()) -> dict[str, FencedSite]:
        left = {site: one for site, one in found.items() if site not in lifted}
        return {site: one if one.problem is not None else replace(one, problem=why) for site, one in left.items()}

    try:
        with held_lock(recovery, f"monitor {uuid.uuid4().hex}", purpose="stopping what is left at sites that answer again"):
            lifted = recovery.sites.lift_fences()
    except LockHeld as error:
        return held_up(error.reason)
    except RecoveryError as error:
        LOGGER.warning("what is left of %s at a fenced site was not stopped: %s", recovery.application_id, error.reason)
        return held_up(error.reason)
    return held_up("it does not run where it belongs, and only what would run twice is stopped", lifted)


def with_standbys(recovery: RecoveryContext, known: SitesStatus, newest: Manifest | None, now: int) -> SitesStatus:
    """The status with a look at each site that the application could fail over to, if the last one was a day ago. ``newest`` is the savepoint that it would go
    with.
    """
    before = {one.site: one for one in known.standbys}
    left = {known.belongs, *(fence.site for fence in known.fences)}
    names = [site for site in recovery.sites.names if site not in left]
    return replace(
        known,
        standbys=tuple(
            before[site]
            if site in before and 0 <= now - before[site].looked_at < _STANDBY_MS
            else _look_at_standby(recovery, site, newest, now)
            for site in names
        ),
    )


def _look_at_standby(recovery: RecoveryContext, site: str, newest: Manifest | None, now: int) -> StandbySite:
    """Look at one of them. No answer is a result too."""
    try:
        with recovery.at(site) as there:
            # First, and alone: what does not answer is not asked more.
            there.cluster.cluster_id()
            found = before_failover(there, newest)
    except RecoveryError as error:
        LOGGER.warning("the standby site %s of %s could not be looked at: %s", site, recovery.application_id, error.reason)
        return StandbySite(site=site, looked_at=now, lacks=(), warnings=(), problem=error.reason)
    texts = {severity: tuple(one.text for one in found if one.severity is severity) for severity in PreflightSeverity}
    return StandbySite(
        site=site, looked_at=now, lacks=texts[PreflightSeverity.BLOCKING], warnings=texts[PreflightSeverity.WARNING], problem=None
    )
