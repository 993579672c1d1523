"""The evidence of a restore: what was compared with what, and hashes by which each side can be looked at again."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streams_recovery.core.asking import StoreAsked
from streams_recovery.core.estimate import Sizes
from streams_recovery.core.jobs import PartitionVerified, StoreVerified
from streams_recovery.core.model import Consistency, TopicRole
from streams_recovery.core.plan import PointInTime, RestorePlan

EVIDENCE_VERSION: Final = 2


class Verdict(enum.StrEnum):
    """What a restore's evidence shows. ``NOTHING_COMPARED``: there was nothing to restore, or it was not looked at; neither proves anything."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOTHING_COMPARED = "nothing-compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEvidence:
    """One topic. Digests are SHA-256 over the digests and counts of its partitions in their order (see ``digest_of``), of the savepoint's records and of
    those in the topic. ``keys_compared`` are live keys of a changelog, None for other topics.
    """

    topic: str
    role: TopicRole
    partitions: int
    rows: int
    archived_digest: str
    restored_digest: str
    keys_compared: int | None
    keys_different: int | None

    @property
    def equal(self) -> bool:
        """True when no difference was found."""
        return self.archived_digest == self.restored_digest and not self.keys_different


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The evidence of a restore, kept in the repository. Without a ``savepoint_id`` it was a rebuild from the input.

    ``manifests`` has the hashes of the manifests it rests on as they are stored, by savepoint: each has the hash of every file it names; None for
    one that was gone by the end of the restore. ``missing`` are partitions that were planned and not compared. ``safety_savepoint`` is the way
    back, None when there was nothing to take one of. ``still_held`` are topics whose retention was not put back yet, because restored records
    would expire by it; every later savepoint tries again. ``seconds`` has the steps of the restore by name, None when it did not go through them
    in one piece. ``point`` is the moment that it was brought to, None for any other restore. ``asked`` is what the application answered then.
    """

    format_version: Literal[2]
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
    asked: tuple[StoreAsked, ...]

    @property
    def verdict(self) -> Verdict:
        """Differences and gaps first: what was compared besides does not make up for them."""
        if self.missing or not all(topic.equal for topic in self.topics) or any(store.different for store in self.asked):
            return Verdict.DIFFERENT
        state = any(topic.rows for topic in self.topics if topic.role is TopicRole.CHANGELOG)
        return Verdict.EQUAL if self.rows and (self.keys_compared or not state) else Verdict.NOTHING_COMPARED


def digest_of(partitions: Iterable[tuple[int, int, str]]) -> str:
    """SHA-256 over one line ``{partition} {rows} {digest}`` for each partition, in their order."""
    lines = "".join(f"{partition} {rows} {digest}\n" for partition, rows, digest in sorted(partitions))
    return hashlib.sha256(lines.encode()).hexdigest()


def topic_evidence(
    plan: RestorePlan, partitions: Sequence[PartitionVerified], stores: Sequence[StoreVerified]
) -> tuple[tuple[TopicEvidence, ...], tuple[str, ...]]:
    """One entry for each topic of the plan, and the planned partitions that were not compared."""
    by_topic: dict[str, list[PartitionVerified]] = {}
    for found in partitions:
        by_topic.setdefault(found.topic, []).append(found)
    by_store = {store.topic: store for store in stores}
    topics, missing = [], []
    for step in plan.create:
        compared = by_topic.get(step.name, [])
        seen = {found.partition for found in compared}
        missing += [f"{step.name}-{part.partition}" for part in step.partitions if part.partition not in seen]
        store = by_store.get(step.name)
        if store is None and step.role is TopicRole.CHANGELOG:
            missing.append(f"keys of {step.name}")
        topics.append(
            TopicEvidence(
                topic=step.name,
                role=step.role,
                partitions=len(seen),
                rows=sum(found.loaded_rows for found in compared),
                archived_digest=digest_of((found.partition, found.archived_rows, found.archived_digest) for found in compared),
                restored_digest=digest_of((found.partition, found.loaded_rows, found.loaded_digest) for found in compared),
                keys_compared=store.keys_compared if store else None,
                keys_different=store.keys_different if store else None,
            )
        )
    return tuple(topics), tuple(missing)
