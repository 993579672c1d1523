"""The record of the site that an application belongs to, corrected by a person who has moved the application by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.sites import Fence, SeenSite, SiteEntry, require_nowhere_else, site_of
from streams_recovery.core.restore.failover import check_left
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import held_lock
from streams_recovery.operations.unfinished import refuse_if_unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCorrection:
    """The record that would be made: the application belongs to ``to``, and came from ``before``. ``lost``: it is not proven that nothing runs at ``before``,
    and a person has typed its name; then it is fenced. ``unseen`` is what could not be asked of any other site.
    """

    to: str
    before: str
    lost: bool
    cluster_id: str
    unseen: tuple[str, ...]


def plan_correction(recovery: RecoveryContext, to: str, *, lost: str) -> SiteCorrection:
    """Plan a correction. Changes nothing. ``lost`` is the name of the site that the record names now, typed by a person, where that one cannot be asked. Raises
    ``ConfigInvalid`` for a site that is not configured; ``Refused`` while a restore is unfinished, when there is nothing to correct, while something runs at
    another site than ``to``, and if it cannot be proven that nothing does.
    """
    recovery.sites.written.at(to)
    refuse_if_unfinished(recovery)
    entry = recovery.sites.entry()
    before = site_of(entry)
    if before == to:
        raise Refused(
            f"{recovery.application_id} is on record as belonging to the site {to} already", next_step="nothing was changed", site=to
        )
    seen = {site: _seen(recovery, site) for site in dict.fromkeys((*recovery.sites.names, before))}
    require_nowhere_else((one for site, one in seen.items() if site != to), to, application_id=recovery.application_id)
    left = check_left(seen[before], lost)
    return SiteCorrection(
        to=to,
        before=before,
        # One that answers proves itself, whatever was typed.
        lost=left and bool(seen[before].unseen),
        cluster_id=seen[to].cluster_id,
        unseen=tuple(f"{site}: {one}" for site, found in seen.items() if site != to for one in found.unseen),
    )


def _seen(recovery: RecoveryContext, site: str) -> SeenSite:
    if site in recovery.sites.names:
        return recovery.sites.look(site)
    return SeenSite(site=site, cluster_id="", instances=(), members=(), unseen=("it is not configured",))


def correct(recovery: RecoveryContext, planned: SiteCorrection, *, lost: str, run_id: str, requested_by: str, reason: str) -> SiteEntry:
    """Record a correction, under the application's lock, if it would still be the same. Returns the entry. Raises what ``plan_correction`` does, ``LockHeld``,
    and ``Refused`` when something is different now.
    """
    with held_lock(recovery, f"sites {run_id}", purpose=f"recording that it belongs to the site {planned.to}"):
        now = plan_correction(recovery, planned.to, lost=lost)
        if replace(now, unseen=()) != replace(planned, unseen=()):
            raise Refused(
                f"the sites of {recovery.application_id} are not as they were when this was planned",
                next_step="nothing was changed; look at the plan again",
            )
        fence = None
        if planned.lost:
            last = recovery.sites.entry()
            known = last.cluster_id if last is not None and last.site == planned.before else ""
            fence = Fence(site=planned.before, cluster_id=known, since=recovery.clock(), run=run_id)
        moved = recovery.sites.moving(
            planned.to, cluster_id=planned.cluster_id, run=run_id, requested_by=requested_by, reason=reason, fence=fence
        )
        entry = moved.at_work(at=recovery.clock())
        recovery.sites.write(entry)
        return entry
