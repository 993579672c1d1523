"""The record of a published savepoint: proof that it was published, and a summary, so that listings and pages open no manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from streams_recovery.core.codec import LEFT_OUT, fields_of
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.repository.checked import check_ids, check_names, check_refs
from streams_recovery.core.repository.manifest import Captured, Manifest
from streams_recovery.core.repository.ranges import TableRef
from streams_recovery.core.repository.seal import MANIFEST_SEAL_BYTES
from streams_recovery.core.repository.survival import lost_with_cluster
from streams_recovery.core.words import LAST_MOMENT

MOST_REASONS = 20
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointFacts(Captured):
    """Facts of one savepoint that all views of it share; see ``Manifest``. ``records`` and ``files`` are those it needs, whichever savepoint stored them.
    ``survives_cluster_loss`` is true when it is enough once the whole cluster is lost.
    ``rescaled`` is true, and else None, for one that a rescale has made: it has to be named.
    """

    savepoint_id: str
    application_id: str
    profile: Profile
    parent_id: str | None
    replaces: str | None
    run_id: str
    requested_by: str
    records: int
    files: int
    survives_cluster_loss: bool
    rescaled: bool | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication(SavepointFacts):
    """``manifest`` is the manifest's key. ``bytes`` and ``sha256`` are those of the object as it was stored, without its seal. ``tables`` are those of each
    topic. ``lost_with_cluster`` has the first reasons why the savepoint alone does not bring the application back, none when it does.
    """

    manifest: str
    bytes: int
    sha256: str
    tables: dict[str, tuple[TableRef, ...]]
    lost_with_cluster: tuple[str, ...]

    def is_of(self, key: str, size: int) -> bool:
        """False when this cannot be about the manifest at ``key``, of this many bytes with or without a seal."""
        return self.manifest == key and size - self.bytes in (0, MANIFEST_SEAL_BYTES)


def check_publication(record: Publication, *, where: str) -> None:
    """Raise ``Damaged`` for a record that no savepoint has: expiry opens the tables that it names."""
    check_names("application id", [record.application_id], where=where)
    check_ids([record.savepoint_id], where=where)
    check_names("topic", list(record.tables), where=where)
    for topic, tables in record.tables.items():
        check_refs(topic, tables, where=where)
    if not 0 <= record.captured_at <= LAST_MOMENT or min(record.records, record.files, record.bytes) < 0:
        raise Damaged(
            f"{where} has the moment {record.captured_at} ms, {record.records} records and {record.files} files, which cannot be",
            next_step="remove it, and find out who wrote it: the savepoint is known by its manifest",
            where=where,
        )
    if record.survives_cluster_loss == bool(record.lost_with_cluster):
        raise Damaged(
            f"{where} says that the savepoint {'survives' if record.survives_cluster_loss else 'does not survive'} the loss of the cluster, and has "
            f"{len(record.lost_with_cluster)} reasons why it does not",
            next_step="remove it, and find out who wrote it: the savepoint is known by its manifest",
            where=where,
        )


def savepoint_facts(manifest: Manifest) -> SavepointFacts:
    """The facts of a savepoint, with or without its ranges."""
    return SavepointFacts(
        savepoint_id=manifest.savepoint_id,
        application_id=manifest.application_id,
        captured_at=manifest.captured_at,
        consistency=manifest.consistency,
        profile=manifest.profile,
        parent_id=manifest.parent_id,
        replaces=manifest.replaces,
        run_id=manifest.provenance.run_id,
        requested_by=manifest.provenance.requested_by,
        records=manifest.records,
        files=manifest.file_count,
        survives_cluster_loss=not lost_with_cluster(manifest),
        rescaled=None if manifest.provenance.rescaled_from is None else True,
    )


def publication(manifest: Manifest, key: str, stored: bytes) -> Publication:
    """The record of a savepoint whose manifest was stored as these bytes."""
    return Publication(
        **fields_of(SavepointFacts, savepoint_facts(manifest)),
        manifest=key,
        bytes=len(stored),
        sha256=hashlib.sha256(stored).hexdigest(),
        tables={topic.name: topic.tables for topic in manifest.topics if topic.tables},
        lost_with_cluster=tuple(reason[:_LONGEST_REASON] for reason in lost_with_cluster(manifest)[:MOST_REASONS]),
    )
