"""The continuous archive of an application: telling an archiver what to do, asking one for a boundary, and what is archived behind a savepoint."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.archive.cuts import KeptCut
from streams_recovery.core.archive.log import (
    ARCHIVED_ROLES,
    ENTRY_READERS,
    Archive,
    ArchiveEntry,
    ArchiveEvent,
    Extended,
    archive_of,
    extended,
    goes_into_archive,
    kept_files,
)
from streams_recovery.core.archive.tick import HAND_OVER_SECONDS, KEPT_SECONDS, ArchiveSpec, TickLimits, is_at_work
from streams_recovery.core.errors import ApplicationNotReady, NotFound, Refused
from streams_recovery.core.jobs.spec import NO_JOB, JobPlan
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.waiting import poll
from streams_recovery.core.words import first_names, milliseconds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.archive_logs import archive_cuts, archive_entries
from streams_recovery.storage.lock import ApplicationLock

SPEC, RESULT = "archive-spec", "archive-result"
# One look of an archiver: what is left comes with the next one.
_MOST_RECORDS: Final = 4_000_000
# Between two cuts: each one writes an object for every changelog partition with news.
CUT_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiverTicket:
    """The run that asked for an archiver, and the moment (ms) at which that hands over to the next one."""

    run: str
    ends_at: int


def begin(recovery: RecoveryContext, run: str, *, seconds: float = HAND_OVER_SECONDS) -> ArchiverTicket:
    """Archive from now on, for so long. Raises ``Refused`` where the configuration does not ask for it, and where the application belongs to another site."""
    if not recovery.config.archive.enabled:
        raise Refused(
            f"the configuration of {recovery.config.name} does not ask for an archive",
            next_step="write archive: {enabled: true} there, and backup.survive_cluster_loss: true",
            application_id=recovery.application_id,
        )
    recovery.sites.require_current(recovery.site)
    return ArchiverTicket(run=run, ends_at=recovery.clock() + round(1000 * seconds))


def plan_archiver(recovery: RecoveryContext, ticket: ArchiverTicket) -> JobPlan:
    """The job that archives until its ticket's end; there is none behind that. The application need not run, nor have run. Raises ``Refused`` where savepoints
    have the records of no input, and ``ApplicationNotReady`` while no input is there.
    """
    left = (ticket.ends_at - recovery.clock()) / 1000
    if left <= 0:
        return NO_JOB
    # What only reads the archive, as every listing does, loads no plans of restores.
    from streams_recovery.operations.discovery import discover_remaining  # noqa: PLC0415

    found, missing = discover_remaining(recovery, ())
    read = [topic for topic in found.inventory.topics if topic.role in ARCHIVED_ROLES]
    topics = tuple(sorted(topic.name for topic in read if goes_into_archive(topic)))
    if not read:
        raise ApplicationNotReady(
            f"no input of {recovery.application_id} is there yet: {first_names(missing)} missing",
            next_step="archiving begins when the topics are there",
            missing=missing,
        )
    if not topics:
        raise Refused(
            f"savepoints of {recovery.application_id} have the records of no input, so nothing can be archived behind them",
            next_step="write backup.survive_cluster_loss: true in the configuration",
            application_id=recovery.application_id,
        )
    section = recovery.config.archive
    interval = milliseconds(section.interval) / 1000
    limit = section.throttle
    records = _MOST_RECORDS if limit.records_per_second is None else max(1, int(limit.records_per_second * interval))
    payload = None if limit.bytes_per_second is None else max(1, int(limit.bytes_per_second * interval))
    spec = ArchiveSpec(
        application_id=recovery.application_id,
        name=recovery.config.name,
        site=recovery.site if len(recovery.sites.names) > 1 else "",
        # Each attempt is an archiver of its own: one that has fallen silent must not be taken for its successor.
        run=f"{ticket.run}-{uuid.uuid4().hex[:8]}",
        topics=topics,
        interval_seconds=interval,
        hand_over_seconds=left,
        limits=TickLimits(records=min(records, _MOST_RECORDS), payload=payload, file_records=recovery.config.backup.segment_max_records),
        compression_level=recovery.config.backup.compression_level,
        cut_seconds=CUT_SECONDS if section.state else None,
        outputs=recovery.config.topics.outputs,
    )
    written = recovery.artifacts.write(spec.run, SPEC, spec)
    return JobPlan(spec=written, result_key=recovery.artifacts.answer(written.key, RESULT), ranges=len(topics), offsets=0)


def archive_log(recovery: RecoveryContext, application_id: str = "") -> AppendLog[ArchiveEntry]:
    """The log of an archive, by default the application's own."""
    return archive_entries(recovery.repository, Layout(application_id or recovery.application_id))


def cut_log(recovery: RecoveryContext, application_id: str = "") -> AppendLog[KeptCut]:
    """The log of the cuts that were kept, by default the application's own."""
    return archive_cuts(recovery.repository, Layout(application_id or recovery.application_id))


def kept_cuts(recovery: RecoveryContext, application_id: str = "") -> Iterator[KeptCut]:
    """The cuts that were kept, from the newest back, each read when it is asked for, up to those that an archiver removes meanwhile. Raises ``Damaged`` for one
    that cannot be used.
    """
    application_id = application_id or recovery.application_id
    where = Layout(application_id).archive_cuts
    # It removes the oldest first: what is older than one that is gone goes too.
    with suppress(NotFound):
        for _, one in cut_log(recovery, application_id).numbered_back(readers=ENTRY_READERS):
            yield one.checked(application_id, where)


def archive_lock(recovery: RecoveryContext) -> ApplicationLock:
    """The lock of the application's archiver."""
    config = recovery.config
    return ApplicationLock(
        recovery.repository, recovery.layout.archiving, recovery.clock, name=config.name, options=config.storage.place_option
    )


def read_archive(recovery: RecoveryContext, application_id: str = "", *, upto: int | None = None) -> Archive:
    """The archive behind the savepoints; ``upto`` as for ``archive_of``. Raises ``Damaged`` for entries that cannot be used."""
    application_id = application_id or recovery.application_id
    where = Layout(application_id).archive
    entries = archive_log(recovery, application_id).numbered_back(readers=ENTRY_READERS)
    return archive_of(((number, entry.checked(application_id, where)) for number, entry in entries), upto)


def archived_files(recovery: RecoveryContext) -> frozenset[str]:
    """The files of the archive and of cuts that were kept, and older ones that a run has said to use. Raises ``Damaged`` for entries that cannot be used."""
    where = recovery.layout.archive
    entries = archive_log(recovery).numbered_back(readers=ENTRY_READERS)
    known = [(number, entry.checked(recovery.application_id, where)) for number, entry in entries]
    tails = frozenset(key for one in kept_cuts(recovery) for key in one.cut.keys)
    return archive_of(known).keys | kept_files(known, recovery.clock() - 1000 * KEPT_SECONDS) | tails


def archived_behind(
    recovery: RecoveryContext, manifest: Manifest, *, upto: int | None = None, topics: Collection[str] | None = None
) -> Extended | None:
    """``manifest``, read with its ranges, extended by the archive behind it, of all its topics or of these; None if the archive has nothing behind it. ``upto``
    as for ``read_archive``, 0 for nothing.
    """
    archive = Archive() if upto == 0 else read_archive(recovery, manifest.application_id, upto=upto)
    return extended(manifest, archive, topics) if archive.exists else None


def keep_files(recovery: RecoveryContext, run: str, application_id: str = "") -> Archive | None:
    """Say in the archive that ``run`` is about to use its files: from now on no archiver joins or removes them. Returns the archive up
    to there, None if there is none.
    """
    archive = read_archive(recovery, application_id)
    if not archive.exists:
        return None
    if recovery.config.storage.is_turned_round:
        # Nobody joins or removes anything in the second place, and an entry here would stand against the one of that number in the first.
        return archive
    number = archive_log(recovery, application_id).append(_word(recovery, archive, ArchiveEvent.KEPT, run))
    return read_archive(recovery, application_id, upto=number)


def _word(recovery: RecoveryContext, archive: Archive, event: ArchiveEvent, run: str) -> ArchiveEntry:
    return ArchiveEntry(event=event, run=run, at=recovery.clock(), cluster_id=archive.cluster_id)


def ask(recovery: RecoveryContext, run: str) -> Archive | None:
    """Have the archiver join its files, up to a moment after this call, and return the archive as it is then. If no archiver of this cluster answers, the
    present archive is returned, and its files are kept; None if there is no archive.
    """
    archive = read_archive(recovery)
    # One that still works at a site which was left answers for the inputs there.
    if (
        not recovery.config.storage.is_turned_round
        and is_at_work(archive, recovery.clock())
        and archive.cluster_id == recovery.cluster.cluster_id()
    ):
        log = archive_log(recovery)
        asked = log.append(_word(recovery, archive, ArchiveEvent.ASKED, run))

        def answered() -> Archive | None:
            since = itertools.takewhile(lambda one: one[0] > asked, log.numbered_back())
            return read_archive(recovery) if any(entry.answers == run for _, entry in since) else None

        found = poll(answered, seconds=_ASK_SECONDS, interval=_LOOK_SECONDS, what="the archiver")
        if found is not None:
            return found
    return keep_files(recovery, run)
