"""The recovery point of an application: up to which moment its input would be there if its cluster were lost now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streams_recovery.core.archive.log import Archive, Extended
from streams_recovery.core.archive.tick import is_at_work
from streams_recovery.core.repository.publication import SavepointFacts
from streams_recovery.core.restore.point_in_time import CLOCK_DIFFERENCE_MS

# Partitions that are named.
_NAMED: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStatus:
    """The continuous archive behind the newest exact savepoint. ``working``: an archiver has said something lately, the last time at ``said_at`` (ms), None
    when none ever did. All that was committed by ``safe_at`` (ms) would be there after a loss of the cluster; None where the archive adds nothing to the
    savepoint. ``waiting`` records were not archived when it was last looked. Partitions that are ``left`` do not go on behind the savepoint, the first ones
    with the reason, ``left_count`` of all. ``lost`` offsets were gone before they could be archived. ``problem`` says why the archive cannot be used, empty
    when it can.
    """

    working: bool
    said_at: int | None
    safe_at: int | None
    waiting: int
    files: int
    left: tuple[str, ...] = ()
    left_count: int = 0
    lost: int = 0
    problem: str = ""


def archive_status(archive: Archive, behind: Extended | None, now: int) -> ArchiveStatus:
    """What ``archive`` says of itself, and adds to the newest exact savepoint: ``behind`` is that one with it, None where it adds nothing. Of a moment that has
    not come, by an archiver's clock that is ahead, nothing is promised.
    """
    safe_at = behind.safe_at if behind is not None and not behind.left else None
    return ArchiveStatus(
        working=is_at_work(archive, now),
        said_at=archive.at,
        safe_at=None if safe_at is None or safe_at > now + CLOCK_DIFFERENCE_MS else safe_at,
        waiting=archive.waiting,
        files=archive.files,
        left=() if behind is None else behind.left[:_NAMED],
        left_count=0 if behind is None else len(behind.left),
        lost=sum(gap.end - gap.start for log in archive.newest.values() for gap in log.gaps),
    )


def unusable(problem: str) -> ArchiveStatus:
    """What is said of an archive that cannot be used."""
    return ArchiveStatus(working=False, said_at=None, safe_at=None, waiting=0, files=0, problem=problem)


def recovery_point(newest: SavepointFacts | None, archive: ArchiveStatus | None) -> int | None:
    """The moment (ms), with the ``newest`` exact savepoint. None where nothing would be left of the input that is not in the state: there is no such savepoint,
    or it is not enough without the cluster.
    """
    if newest is None or not newest.survives_cluster_loss:
        return None
    archived = archive.safe_at if archive is not None else None
    return newest.captured_at if archived is None else max(newest.captured_at, archived)
