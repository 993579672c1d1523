"""What a repository says about its savepoints outside their manifests: logs, marks, and what was written when they were published."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from streams_recovery.core.archive.log import MOST_BYTES_OF_ARCHIVE_ENTRY, ArchiveEntry
from streams_recovery.core.bounded_json import MOST_BYTES, MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.offsets.snapshot import OffsetSnapshot
from streams_recovery.core.repository import check_findings as findings
from streams_recovery.core.repository.announcement import Announcement
from streams_recovery.core.repository.check_findings import Cause, Finding, cause_of
from streams_recovery.core.repository.journal import JournalEntry
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.ownership import OwnershipEntry, ReadUpTo
from streams_recovery.core.repository.retention import Pin, pinned
from streams_recovery.core.repository.seal import Adoption
from streams_recovery.core.repository.sites import SiteEntry
from streams_recovery.core.restore.in_place import QuarantineEntry
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.sandbox.interval_log import ReprocessEntry
from streams_recovery.core.sandbox.slots import SlotEntry
from streams_recovery.core.scheduled_run import RunEntry
from streams_recovery.core.topic_holds.log import HoldEntry
from streams_recovery.operations import pins
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.quiesce_record import QuiesceRecord
from streams_recovery.operations.unfinished import needed_savepoints
from streams_recovery.storage.json_object import read_value
from streams_recovery.storage.unreadable import UNREADABLE, only_this_one

# Decisions rest on the newest entries; the others are history.
_NEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsChecked:
    """How many records were read, and what is wrong."""

    read: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Logs of one kind: the entries below ``prefix``, each directory a log. ``shortened`` ones may have lost their oldest entries. An entry has at most
    ``most_bytes``.
    """

    prefix: str
    kind: type[Any]
    shortened: bool = False
    within: str = ""
    most_bytes: int = MOST_BYTES_OF_ENTRY


def _families(layout: Layout) -> list[_Family]:
    return [
        _Family(prefix=layout.locks, kind=LockRecord, shortened=True),
        _Family(prefix=layout.quiesce_records, kind=QuiesceRecord, shortened=True),
        _Family(prefix=layout.holds, kind=HoldEntry),
        _Family(prefix=layout.pins, kind=Pin),
        _Family(prefix=layout.adopted, kind=Adoption, most_bytes=MOST_BYTES),
        _Family(prefix=layout.announcements, kind=Announcement),
        _Family(prefix=layout.restores, kind=JournalEntry, within="/journal/"),
        _Family(prefix=layout.drills, kind=DrillEntry),
        _Family(prefix=layout.quarantines, kind=QuarantineEntry, most_bytes=MOST_BYTES),
        _Family(prefix=layout.slots, kind=SlotEntry),
        _Family(prefix=layout.reprocessed, kind=ReprocessEntry),
        _Family(prefix=layout.scheduled_runs, kind=RunEntry, shortened=True),
        _Family(prefix=layout.ownership, kind=OwnershipEntry),
        _Family(prefix=layout.read_up_to, kind=ReadUpTo),
        _Family(prefix=layout.sites, kind=SiteEntry),
        _Family(prefix=layout.offset_snapshots, kind=OffsetSnapshot, most_bytes=MOST_BYTES),
        _Family(prefix=layout.archive, kind=ArchiveEntry, shortened=True, most_bytes=MOST_BYTES_OF_ARCHIVE_ENTRY),
        _Family(prefix=layout.archiving.locks, kind=LockRecord, shortened=True),
    ]


def check_logs(recovery: RecoveryContext, *, every_entry: bool) -> RecordsChecked:
    """Are the application's logs without holes, and can their entries be read: all of them, or the newest of each kind of log?"""
    read, found = 0, []
    for family in _families(recovery.layout):
        keys = [key for key in recovery.repository.keys(family.prefix) if family.within in key]
        problems: dict[str, str] = {}
        for prefix, entries in groupby(keys, key=lambda key: f"{key.rsplit('/', 1)[0]}/"):
            problems |= findings.log_problems(prefix, list(entries), shortened=family.shortened)
        found += [_about(key, problem) for key, problem in problems.items()]
        whole = [key for key in keys if key not in problems]
        for key in whole if every_entry else whole[-_NEWEST:]:
            read += 1
            found += _entry(recovery, key, family)
    return RecordsChecked(read=read, findings=tuple(found))


def _entry(recovery: RecoveryContext, key: str, family: _Family) -> list[Finding]:
    try:
        read_value(recovery.repository, family.kind, key, most_bytes=family.most_bytes)
    except Damaged as error:
        return [_about(key, error.reason, cause_of(error, Cause.DAMAGED_RECORD))]
    except NotFound:
        # Expiry shortens the log of the lock meanwhile.
        return []
    except UNREADABLE as error:
        return [_about(key, only_this_one(recovery.repository, recovery.layout, error), Cause.NOT_READ)]
    return []


def _about(key: str, problem: str, cause: Cause = Cause.DAMAGED_RECORD) -> Finding:
    return Finding(cause=cause, key=key, problem=problem, savepoints=())


def lost(recovery: RecoveryContext) -> dict[str, str]:
    """Savepoints that must exist and do not, with what proves it. What cannot be read proves nothing here: it is a finding of its own."""
    # In this order nothing that is published or expires meanwhile is taken for lost: a record follows its manifest, and a manifest goes only
    # after it was copied.
    published, kept, in_use = (
        recovery.savepoints.published(),
        _readable(lambda: _kept(recovery)),
        _readable(lambda: needed_savepoints(recovery)),
    )
    alive = {*recovery.savepoints.ids(), *recovery.safety.ids()}
    # A record that is forged says nothing.
    proven = [one for one in published if one in alive or not recovery.savepoints.forged_object(recovery.layout.published(one))]
    expired = [
        savepoint_id
        for savepoint_id, copies in recovery.savepoints.copies().items()
        if savepoint_id not in alive and recovery.savepoints.expired_as(savepoint_id, copies) is not None
    ]
    return findings.lost_manifests(alive, expired, published=proven, pinned=kept, in_use=in_use)


def _readable(read: Callable[[], Collection[str]]) -> Collection[str]:
    try:
        return read()
    except (Damaged, NotFound, *UNREADABLE):
        return ()


def _kept(recovery: RecoveryContext) -> Collection[str]:
    return pinned(pins.pin_log(recovery).read_all()).keys()
