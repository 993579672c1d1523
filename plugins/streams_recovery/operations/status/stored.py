"""The parts of a status that the repository alone tells of: its archive and its sites; and the limits that it is judged by. No cluster is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field

from streams_recovery.core.archive.log import ARCHIVED_ROLES, Archive, extended
from streams_recovery.core.archive.state import has_news
from streams_recovery.core.errors import Damaged, RecoveryError
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.publication import SavepointFacts
from streams_recovery.core.repository.sites import PRIMARY, Fence, site_of
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.report import ArchiveStatus, FencedSite, SitesStatus, archive_status, unusable
from streams_recovery.operations.archive import read_archive
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.log import newest


@dataclass(frozen=True, slots=True)
class ArchiveSeen:
    """An archive, its status, and the newest exact savepoint extended by it, None when there is no such savepoint. ``saved`` tells ends of partitions only: its
    ranges are not read.
    """

    archive: Archive = field(default_factory=Archive)
    status: ArchiveStatus | None = None
    saved: Manifest | None = None

    @property
    def news(self) -> bool:
        """True if input is archived that the state a restore begins from has not read."""
        return self.saved is not None and has_news(self.saved, self.archive)


def see_archive(recovery: RecoveryContext, newest: Manifest | None) -> ArchiveSeen:
    """The archive behind the ``newest`` exact savepoint, which is read without its ranges. One that cannot be used is told of."""
    try:
        archive = read_archive(recovery)
        behind = None if newest is None else extended(newest, archive, outline=True)
        if newest is not None and behind is not None and behind.left:
            # Where a savepoint has copied the last records itself, its ranges say behind which of them the archive goes on.
            newest = recovery.savepoints.read(newest.savepoint_id, roles=ARCHIVED_ROLES)
            behind = extended(newest, archive)
    except Damaged as error:
        return ArchiveSeen(status=unusable(error.reason), saved=newest)
    status = archive_status(archive, newest, behind, recovery.clock()) if archive.exists else None
    return ArchiveSeen(archive, status, newest if behind is None else behind.manifest)


def limits(recovery: RecoveryContext) -> Limits:
    """The limits of this application."""
    return recovery.config.monitor.limits_for(recovery.config.backup.schedule)


def outline(recovery: RecoveryContext, known: SavepointFacts | None) -> Manifest | None:
    """A savepoint without its ranges, None when there is none or it cannot be read."""
    if known is not None:
        with contextlib.suppress(RecoveryError):
            return recovery.savepoints.outline(known.savepoint_id)
    return None


def recorded(recovery: RecoveryContext, known: SitesStatus, restores: Collection[str]) -> SitesStatus:
    """The status by the log of sites, with what was ``known`` of each of them. ``restores`` are those that are not over."""
    if recovery.sites.names == (PRIMARY,):
        return SitesStatus()
    entry, newest = recovery.sites.entry(), next(recovery.sites.log.readable_back(), None)
    belongs = site_of(entry)
    fences = () if entry is None else tuple(_fenced(fence, known.fences) for fence in entry.fences)
    left = {belongs, *(fence.site for fence in fences)}
    return SitesStatus(
        belongs=belongs,
        moving_to=newest.site if newest is not None and not newest.arrived and newest.run in restores else None,
        fences=fences,
        standbys=tuple(one for one in known.standbys if one.site in recovery.sites.names and one.site not in left),
    )


def sites_now(recovery: RecoveryContext) -> SitesStatus:
    """The status by the log now, with what the monitor has seen of each site."""
    if recovery.sites.names == (PRIMARY,):
        return SitesStatus()
    from streams_recovery.operations.status.savepoints import open_restores_now  # noqa: PLC0415  # where all is at one site nothing moves

    report = newest(recovery.repository, recovery.layout)
    known = SitesStatus() if report is None else report.sites
    return recorded(recovery, known, [one.restore_id for one in open_restores_now(recovery)])


def _fenced(fence: Fence, known: Collection[FencedSite]) -> FencedSite:
    same = next((one for one in known if (one.site, one.since, one.run) == (fence.site, fence.since, fence.run)), None)
    return same or FencedSite(site=fence.site, since=fence.since, run=fence.run, running=(), problem=None)
