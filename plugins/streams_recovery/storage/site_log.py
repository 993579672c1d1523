"""The log of an application's sites in the repository: the newest entry names the site that it belongs to."""

from __future__ import annotations

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.journal import JournalEntry, Phase, may_restart
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.sites import SiteEntry, counting
from streams_recovery.core.words import is_id
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository


def site_log(repository: Repository, layout: Layout) -> AppendLog[SiteEntry]:
    """The log of an application's sites."""
    return AppendLog(repository, layout.sites, SiteEntry)


def entry_in(repository: Repository, layout: Layout) -> SiteEntry | None:
    """The entry of the log that says where the application belongs, None without one. An entry that cannot be read is passed over."""
    return counting(site_log(repository, layout).readable_back(), lambda run: _has_begun(repository, layout, run))


def _has_begun(repository: Repository, layout: Layout, restore_id: str) -> bool:
    """True when this restore has begun to replace topics. Also when it is unknown how far it came: then the application must not be started on what it left."""
    if not is_id(restore_id):
        return False
    journal = AppendLog(repository, layout.journal(restore_id), JournalEntry)
    try:
        return any(entry.phase is not Phase.CLOSED and not may_restart(entry.phase) for entry in journal.readable_back(whole=False))
    except Damaged:
        return True
