"""The two logs of a continuous archive. In a second place either may have a gap, where it was not filled for longer than the first place keeps entries."""

from __future__ import annotations

from streams_recovery.core.archive.cuts import KeptCut
from streams_recovery.core.archive.log import MOST_BYTES_OF_ARCHIVE_ENTRY, ArchiveEntry
from streams_recovery.core.repository.layout import Layout
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository


def archive_entries(repository: Repository, layout: Layout) -> AppendLog[ArchiveEntry]:
    """The log of the archive. What is before an entry that joined is not read."""
    return AppendLog(repository, layout.archive, ArchiveEntry, most_bytes=MOST_BYTES_OF_ARCHIVE_ENTRY, begins=lambda entry: entry.begins)


def archive_cuts(repository: Repository, layout: Layout) -> AppendLog[KeptCut]:
    """The log of the cuts that were kept. Each stands for itself."""
    return AppendLog(repository, layout.archive_cuts, KeptCut, most_bytes=MOST_BYTES_OF_ARCHIVE_ENTRY, begins=lambda cut: cut.begins)
