"""The log of what restores have loaded: how the producers of a restore are told from others, see ``core.savepoint.writers``."""

from __future__ import annotations

from itertools import islice

from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.savepoint.writers import NEWEST_LOADS, LoadedEntry
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository


def loaded_log(repository: Repository, layout: Layout) -> AppendLog[LoadedEntry]:
    """The log of an application."""
    return AppendLog(repository, layout.loaded, LoadedEntry)


def newest_loads(repository: Repository, layout: Layout) -> tuple[LoadedEntry, ...]:
    """Its newest entries, newest first. One that cannot be read or is missing is passed over: without it more writers count."""
    return tuple(islice(loaded_log(repository, layout).readable_back(whole=False), NEWEST_LOADS))
