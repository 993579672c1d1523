"""The evidence of a restore: what was compared with what, and hashes by which each side can be looked at again."""

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
    """What a restore's evidence shows. ``NOTHING_COMPARED``: there was nothing to restore, or it was not looked at; neither proves anything."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOTHING_COMPARED = "nothing-compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEvidence:
    """One topic and the proof of each of its partitions. Digests are SHA-256 over the digests and counts of its partitions in their order (see
    ``digest_of``), of the savepoint's records and of those in the topic. ``keys_compared`` are live keys, None when none were looked at.
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
        """True when each partition is: over more than no row, or empty on both sides."""
        return bool(self.partitions) and all(one.holds for one in self.partitions) and self.archived_digest == self.restored_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The evidence of a restore, kept in the repository. Without a ``savepoint_id`` it was a rebuild from the input;
    its topics, if any, are inputs, globals and outputs from the savepoint in ``manifests``.

    ``manifests`` has the hashes of the manifests it rests on as they are stored, by savepoint: each has the hash of every file it names; None for one
    that was gone by the end of the restore. ``missing`` are partitions that were planned and are not proven, or not with all their records.
    ``safety_savepoint`` is the way back, None when there was nothing to take one of. ``still_held`` are topics whose retention was not put back yet,
    because restored records would expire by it; every later savepoint tries again. ``seconds`` has the steps of the restore by name, None when it did
    not go through them in one piece. ``point`` is the moment that it was brought to, None for any other restore. ``asked`` is what the application
    answered then.
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
        """Differences and gaps first: what was compared besides does not make up for them."""
        if self.missing or not all(topic.proven for topic in self.topics) or any(store.different for store in self.query_checks):
            return Verdict.DIFFERENT
        return Verdict.EQUAL if sum(topic.rows for topic in self.topics) else Verdict.NOTHING_COMPARED


def digest_of(partitions: Iterable[tuple[int, int, str]]) -> str:
    """SHA-256 over one line ``{partition} {rows} {digest}`` for each partition, in their order."""
    lines = "".join(f"{partition} {rows} {digest}\n" for partition, rows, digest in sorted(partitions))
    return hashlib.sha256(lines.encode()).hexdigest()


def topic_evidence(plan: RestorePlan, proofs: Sequence[PartitionProof]) -> tuple[tuple[TopicEvidence, ...], tuple[str, ...]]:
    """One entry for each topic that is loaded, and the planned partitions without a proof over all their rows. A rebuild without an archive loads none:
    what it creates is empty, and filled by the application.
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
