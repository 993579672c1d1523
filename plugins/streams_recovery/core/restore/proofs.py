"""Proofs that a restored partition is equal to the savepoint, and which partitions still need a separate comparison.

Equal digests over all rows in order imply equal keys. So the load's digest of the archive, and the digest of the records that were read back, are a
sufficient proof as long as the log has not changed since. Only partitions that differ or changed since are compared again, then key by key.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.jobs.spec import KeysVerified, PartitionVerified, RestoreResult
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.plan import PartitionLoad

# The digest of zero rows: see RowDigest.
NO_ROWS: Final = hashlib.sha256(bytes(8)).hexdigest()


class Proof(enum.StrEnum):
    """How a partition was proven equal. ``ROWS``: by every row in order, which implies its keys. ``KEYS``: by rows, and also key by key. ``EMPTY``:
    the savepoint has no row and the topic has no record.
    """

    ROWS = "rows"
    KEYS = "keys"
    EMPTY = "empty"


class Need(enum.StrEnum):
    """Why a partition needs a separate comparison after the load."""

    NOT_READ = "it was not read back"
    CHANGED = "it changed after it was read"
    DIFFERENT = "its records differ"
    KEYS = "its keys are to be compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The present state of one log."""

    topic_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """The proof for one partition, and the number of rows it covers. ``keys_compared`` counts keys that are not deleted, None if keys were not
    compared.
    """

    topic: str
    partition: int
    proof: Proof
    rows: int
    archived_digest: str
    restored_digest: str
    keys_compared: int | None = None

    @property
    def holds(self) -> bool:
        """True if rows were compared and are equal, or both sides are empty."""
        return self.archived_digest == self.restored_digest and (self.proof is Proof.EMPTY) == (self.rows == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of a verification. ``proofs`` are complete only if ``problems`` is empty."""

    proofs: tuple[PartitionProof, ...]
    problems: dict[TopicPartition, str]


def read_back(result: RestoreResult) -> dict[TopicPartition, PartitionVerified]:
    """Both sides of every partition that a job has loaded and read back: the archive as it was loaded, and the log as it was read by other tasks."""
    loaded = {one.tp: one for one in result.partitions}
    found = {one.tp: one for one in result.read}
    return {
        tp: PartitionVerified(
            tp=tp,
            topic_id=read.topic_id,
            start=read.start,
            end=read.end,
            archived_rows=loaded[tp].archived_rows,
            loaded_rows=read.rows,
            archived_digest=loaded[tp].digest,
            loaded_digest=read.digest,
        )
        for tp, read in found.items()
        if tp in loaded
    }


def with_empty(
    verified: Mapping[TopicPartition, PartitionVerified],
    work: Mapping[TopicPartition, PartitionLoad],
    now: Mapping[TopicPartition, LogState],
) -> dict[TopicPartition, PartitionVerified]:
    """``verified``, plus partitions without a file in the savepoint. These are not loaded, and a log whose end is its start is empty."""
    empty = {
        tp: PartitionVerified(
            tp=tp,
            topic_id=now[tp].topic_id,
            start=now[tp].start,
            end=now[tp].end,
            archived_rows=0,
            loaded_rows=0,
            archived_digest=NO_ROWS,
            loaded_digest=NO_ROWS,
        )
        for tp, load in work.items()
        if not load.files and now[tp].start == now[tp].end
    }
    return {**empty, **verified}


def wants_keys(tp: TopicPartition, load: PartitionLoad, keyed: Collection[str], *, requested: bool) -> bool:
    """Whether the keys of a partition must be compared even if its rows are equal. ``keyed`` are the topics that have keys."""
    return tp.topic in keyed and load.rows > 0 and (requested or load.compacted)


def needs(
    work: Mapping[TopicPartition, PartitionLoad],
    verified: Mapping[TopicPartition, PartitionVerified],
    now: Mapping[TopicPartition, LogState],
    keyed: Collection[str],
    *,
    requested: bool,
) -> dict[TopicPartition, Need]:
    """The partitions of ``work`` that need a separate comparison, each with the reason."""
    found = {tp: _need(load, verified.get(tp), now[tp], keys=wants_keys(tp, load, keyed, requested=requested)) for tp, load in work.items()}
    return {tp: need for tp, need in found.items() if need is not None}


def _need(load: PartitionLoad, found: PartitionVerified | None, now: LogState, *, keys: bool) -> Need | None:
    if found is None:
        return Need.NOT_READ
    if LogState(topic_id=found.topic_id, start=found.start, end=found.end) != now:
        return Need.CHANGED
    if not found.equal or found.archived_rows != load.rows:
        return Need.DIFFERENT
    return Need.KEYS if keys else None


def judged(
    work: Mapping[TopicPartition, PartitionLoad],
    verified: Mapping[TopicPartition, PartitionVerified],
    keys: Iterable[KeysVerified],
    now: Mapping[TopicPartition, LogState],
    keyed: Collection[str],
    *,
    requested: bool,
) -> Judgement:
    """A proof for each partition of ``work``, or the problem with it."""
    by_partition = {one.tp: one for one in keys}
    proofs, problems = [], {}
    for tp, need in ((tp, _need(load, verified.get(tp), now[tp], keys=False)) for tp, load in work.items()):
        found, compared = verified.get(tp), by_partition.get(tp)
        if found is None or need is not None:
            problems[tp] = _problem_text(need, work[tp], found, compared)
        elif compared is not None and compared.keys_different:
            problems[tp] = f"{_keys(compared)}, though its records are the same"
        elif compared is None and wants_keys(tp, work[tp], keyed, requested=requested):
            problems[tp] = "its keys were not compared"
        else:
            proofs.append(_proof(found, compared))
    return Judgement(proofs=tuple(proofs), problems=problems)


def _proof(found: PartitionVerified, compared: KeysVerified | None) -> PartitionProof:
    rows = Proof.ROWS if compared is None else Proof.KEYS
    return PartitionProof(
        topic=found.tp.topic,
        partition=found.tp.partition,
        proof=rows if found.loaded_rows else Proof.EMPTY,
        rows=found.loaded_rows,
        archived_digest=found.archived_digest,
        restored_digest=found.loaded_digest,
        keys_compared=None if compared is None else compared.keys_compared,
    )


def _problem_text(need: Need | None, load: PartitionLoad, found: PartitionVerified | None, compared: KeysVerified | None) -> str:
    if found is None or need is not Need.DIFFERENT:
        return str(need)
    if found.archived_rows != load.rows:
        return f"{found.archived_rows} records of the savepoint were read, not {load.rows}"
    rows = f"{found.archived_rows} records in the savepoint, {found.loaded_rows} in the topic, not the same"
    if compared is None:
        return rows
    return f"{rows}; {_keys(compared) if compared.keys_different else 'the newest records of all keys are the same'}"


def _keys(compared: KeysVerified) -> str:
    return f"{compared.keys_different} of {compared.keys_compared} keys differ, such as {', '.join(compared.examples[:3])}"
