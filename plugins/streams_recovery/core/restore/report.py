"""The evidence of a restore: what was compared, and hashes with which both sides can be checked again."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streams_recovery.core.kafka_types import Consistency, TopicRole
from streams_recovery.core.restore.estimate import Sizes
from streams_recovery.core.restore.plan import PointInTime, RestorePlan
from streams_recovery.core.restore.proofs import PartitionProof
from streams_recovery.core.restore.query_check import QueryCheck

EVIDENCE_VERSION: Final = 3


class Verdict(enum.StrEnum):
    """The verdict of a restore's evidence. ``NOTHING_COMPARED``: there was nothing to restore, or it was not compared. Neither proves anything."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOTHING_COMPARED = "nothing-compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEvidence:
    """One topic and the proof of each of its partitions. The digests are SHA-256 over the digests and row counts of its partitions (see
    ``digest_of``), of the savepoint's records and of the topic's records. ``keys_compared`` counts keys that are not deleted, None if keys were not
    compared.
    """

    topic: str
    role: TopicRole
    partitions: tuple[PartitionProof, ...]
    rows: int
    archived_digest: str
    restored_digest: str
    keys_compared: int | None

    @property
    def proven(self) -> bool:
        """True if each partition is proven: by its rows, or as empty on both sides."""
        return bool(self.partitions) and all(one.holds for one in self.partitions) and self.archived_digest == self.restored_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The evidence of a restore, stored in the repository. Without a ``savepoint_id`` it was a rebuild from the input; its topics, if any, are
    inputs, globals and outputs from the savepoint in ``manifests``.

    ``manifests`` has the hashes of the stored manifests that were used, by savepoint. Each manifest has the hash of every file it names. A hash is
    None if the manifest was gone at the end of the restore. ``missing`` are planned partitions without a proof over all their records.
    ``safety_savepoint`` is the one for an undo, None if there was no state to save. ``still_held`` are topics whose retention is not put back yet,
    because restored records would expire; every later savepoint tries again. ``seconds`` has the steps of the restore by name, None if it was
    interrupted. ``point`` is the moment of a restore to a point in time. ``query_checks`` compare answers of the running application.
    """

    format_version: Literal[3]
    restore_id: str
    application_id: str
    source_application_id: str
    savepoint_id: str | None
    captured_at: int | None
    consistency: Consistency | None
    manifests: dict[str, str | None]
    plan_hash: str
    requested_by: str
    reason: str
    started_at: int
    finished_at: int
    strategy: str
    offsets: int
    rows: int
    keys_compared: int
    topics: tuple[TopicEvidence, ...]
    missing: tuple[str, ...]
    safety_savepoint: str | None
    still_held: tuple[str, ...]
    sizes: Sizes
    seconds: dict[str, float] | None
    point: PointInTime | None
    query_checks: tuple[QueryCheck, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict. One difference or missing proof outweighs everything that is equal."""
        if self.missing or not all(topic.proven for topic in self.topics) or any(store.different for store in self.query_checks):
            return Verdict.DIFFERENT
        return Verdict.EQUAL if sum(topic.rows for topic in self.topics) else Verdict.NOTHING_COMPARED


def digest_of(partitions: Iterable[tuple[int, int, str]]) -> str:
    """SHA-256 over one line ``{partition} {rows} {digest}`` for each partition, in order."""
    lines = "".join(f"{partition} {rows} {digest}\n" for partition, rows, digest in sorted(partitions))
    return hashlib.sha256(lines.encode()).hexdigest()


def topic_evidence(plan: RestorePlan, proofs: Sequence[PartitionProof]) -> tuple[tuple[TopicEvidence, ...], tuple[str, ...]]:
    """One entry for each loaded topic, and the planned partitions without a proof over all their rows. A rebuild without an archive loads no topic:
    the topics that it creates are empty.
    """
    by_topic: dict[str, dict[int, PartitionProof]] = {}
    for one in proofs:
        by_topic.setdefault(one.topic, {})[one.partition] = one
    topics, missing = [], []
    for step in plan.create if plan.loads else ():
        found = by_topic.get(step.name, {})
        missing += [
            f"{step.name}-{part.partition}"
            for part in step.partitions
            if part.partition not in found or found[part.partition].rows != part.rows
        ]
        topics.append(_of_topic(step.name, step.role, tuple(found[number] for number in sorted(found))))
    return tuple(topics), tuple(missing)


def _of_topic(name: str, role: TopicRole, proofs: tuple[PartitionProof, ...]) -> TopicEvidence:
    keys = [one.keys_compared for one in proofs if one.keys_compared is not None]
    return TopicEvidence(
        topic=name,
        role=role,
        partitions=proofs,
        rows=sum(one.rows for one in proofs),
        archived_digest=digest_of((one.partition, one.rows, one.archived_digest) for one in proofs),
        restored_digest=digest_of((one.partition, one.rows, one.restored_digest) for one in proofs),
        keys_compared=sum(keys) if keys else None,
    )
