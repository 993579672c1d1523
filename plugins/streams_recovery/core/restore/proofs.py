"""Proofs that a restored application is equal to the savepoint, and what a load does with records that a failed one has left.

Equal digests over all rows in order imply equal keys. So the load's digest of the archive, and the digest of the records that were read back, are a
sufficient proof as long as the log has not changed since. Only partitions that differ or changed since are compared again, then key by key.

A running application's answers to queries are compared with the savepoint too. Keys are asked one by one, or the store as a whole where an application
has no such route. A savepoint contains bytes of the application's own serialisers, while an answer is JSON. They can be compared if the bytes are text or
JSON. Other keys prove nothing and are counted separately. An answer without any key needs no comparison: a store that should have keys is empty.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.answers import is_answer, readable_text
from streams_recovery.core.jobs.spec import KeysVerified, PartitionVerified, RestoreResult
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.planned import PartitionLoad

# The digest of zero rows: see RowDigest.
NO_ROWS: Final = hashlib.sha256(bytes(8)).hexdigest()
# Different keys that a result names.
_SHOWN: Final = 20


class Proof(enum.StrEnum):
    """The way a partition was proven equal. ``ROWS``: by every row in order, which implies its keys. ``KEYS``: by rows, and also key by key. ``EMPTY``:
    the savepoint has no row and the topic has no record.
    """

    ROWS = "rows"
    KEYS = "keys"
    EMPTY = "empty"


class Need(enum.StrEnum):
    """The reason for a separate comparison of a partition after the load."""

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
class RowsCompared:
    """Rows of a topic that were compared: those of the savepoint and those that were restored. ``keys_compared`` counts keys that are not deleted, None if keys
    were not compared.
    """

    topic: str
    rows: int
    archived_digest: str
    restored_digest: str
    keys_compared: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof(RowsCompared):
    """The proof for one partition, over all its rows."""

    partition: int
    proof: Proof

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
    return {
        read.tp: PartitionVerified(
            tp=read.tp,
            topic_id=read.topic_id,
            start=read.start,
            end=read.end,
            archived_rows=loaded[read.tp].archived_rows,
            loaded_rows=read.rows,
            archived_digest=loaded[read.tp].digest,
            loaded_digest=read.digest,
        )
        for read in result.read
        if read.tp in loaded
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


def needs(
    work: Mapping[TopicPartition, PartitionLoad],
    verified: Mapping[TopicPartition, PartitionVerified],
    now: Mapping[TopicPartition, LogState],
    keyed: Collection[str],
    *,
    requested: bool,
) -> dict[TopicPartition, Need]:
    """The partitions of ``work`` that need a separate comparison, each with the reason."""
    found = {
        tp: _need(load, verified.get(tp), now[tp], keys=_wants_keys(tp, load, keyed, requested=requested)) for tp, load in work.items()
    }
    return {tp: need for tp, need in found.items() if need is not None}


def _wants_keys(tp: TopicPartition, load: PartitionLoad, keyed: Collection[str], *, requested: bool) -> bool:
    """True if the keys of a partition must be compared even if its rows are equal. ``keyed`` are the topics that have keys."""
    return tp.topic in keyed and load.rows > 0 and (requested or load.compacted)


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
    for tp, load in work.items():
        found, compared = verified.get(tp), by_partition.get(tp)
        need = _need(load, found, now[tp], keys=False)
        if found is None or need is not None:
            problems[tp] = _problem_text(need, load, found, compared)
        elif compared is not None and compared.keys_different:
            problems[tp] = f"{_keys(compared)}, though its records are the same"
        elif compared is None and _wants_keys(tp, load, keyed, requested=requested):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCheck:
    """The result for one store. Of the keys ``sampled`` from the savepoint, ``equal`` have the application's answer (a deleted one has none), ``changed``
    were written again since the restore, and ``unreadable`` cannot be compared. ``different`` names keys with a different answer or none (at most 20; binary
    keys in hex). With no key ``sampled`` the store was not asked.
    """

    store: str
    sampled: int
    equal: int
    changed: int
    unreadable: int
    different: tuple[str, ...]


def chosen(newest: Mapping[bytes, bytes | None], most: int) -> dict[bytes, bytes | None]:
    """Up to ``most`` of the newest keys of one partition, in the order of their records. Keys with a value go before deleted ones: an empty store also lacks
    those.
    """
    order = [*newest][::-1]
    live = [key for key in order if newest[key] is not None]
    deleted = [key for key in order if newest[key] is None]
    picked = set((*live, *deleted)[:most])
    return {key: value for key, value in newest.items() if key in picked}


def judge_keys(
    store: str, sample: Mapping[bytes, bytes | None], verdicts: Mapping[bytes, bool | None], changed: Collection[bytes]
) -> QueryCheck:
    """Count ``sample``, except for keys that have ``changed``, by whether the answer to each key is its value. None, or no verdict: that cannot be told. Nor
    can it of deleted keys that are not there, unless some key is: an empty store lacks them too.
    """
    still = [key for key in sample if key not in changed]
    different = [_shown(key) for key in still if verdicts.get(key) is False]
    same = [key for key in still if verdicts.get(key) is True]
    proves = any(sample[key] is not None for key in same)
    return _result(store, sample, still, equal=len(same) if proves else 0, different=different)


def judge(store: str, sample: Mapping[bytes, bytes], answers: Mapping[str, object], changed: Collection[bytes]) -> QueryCheck:
    """Compare ``sample`` (newest value by key) with the answers, except for keys that have ``changed``.

    If there are answers but no key is among them, the application shows its keys in another form. That is not a difference. If there are none at all,
    every key is missing, in whatever form.
    """
    still = {key: value for key, value in sample.items() if key not in changed}
    if not answers:
        return _result(store, sample, still, equal=0, different=[*map(_shown, still)])
    named = {key: name for key in still if (name := readable_text(key)) is not None}
    comparable = any(name in answers for name in named.values())
    equal, different = 0, []
    for key, name in named.items() if comparable else ():
        same = is_answer(still[key], answers[name]) if name in answers else False
        equal += same is True
        different += [name] if same is False else []
    return _result(store, sample, still, equal=equal, different=different)


def _shown(key: bytes) -> str:
    return readable_text(key) or f"0x{key.hex()}"


def _result(store: str, sample: Mapping[bytes, bytes | None], still: Collection[bytes], *, equal: int, different: list[str]) -> QueryCheck:
    return QueryCheck(
        store=store,
        sampled=len(sample),
        equal=equal,
        changed=len(sample) - len(still),
        unreadable=len(still) - equal - len(different),
        different=tuple(different[:_SHOWN]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """One partition of a topic that a restore created: the present log, and the number of rows to load."""

    tp: TopicPartition
    start: int
    end: int
    rows: int

    @property
    def present(self) -> int | None:
        """The number of records that can be the first part of the rows to load. None if they cannot be: the log must begin at 0 and have at most this
        number of rows. Only a comparison shows whether they *are* the right records.
        """
        return self.end if self.start == 0 and self.end <= self.rows else None


class TopicState(enum.StrEnum):
    """A topic by its id. ``OURS``: this restore created it. ``STRANGER_EMPTY`` and ``STRANGER_FULL``: it did not. ``MISSING``: there is no such
    topic.
    """

    OURS = "ours"
    STRANGER_EMPTY = "empty"
    STRANGER_FULL = "full"
    MISSING = "missing"


class LoadAction(enum.StrEnum):
    """The action of a load for a topic: ``GO_ON`` after the existing records, ``BEGIN_AGAIN`` with an empty topic, or ``REFUSE`` and let a person
    decide.
    """

    GO_ON = "go on"
    BEGIN_AGAIN = "begin again"
    REFUSE = "refuse"


def next_action(kind: TopicState, *, records: int, differs: bool, others_write: bool) -> LoadAction:
    """The action for a topic with ``records`` records. ``differs``: they cannot be the first rows to load, or were compared and differ.
    ``others_write``: producers write to the topic, so such records may be the only copy, and are not deleted.
    """
    if kind is TopicState.STRANGER_FULL or (others_write and records and differs):
        return LoadAction.REFUSE
    return LoadAction.GO_ON if kind is TopicState.OURS and not differs else LoadAction.BEGIN_AGAIN


def topic_state(topic_id: str | None, ours: Iterable[str], offsets: int) -> TopicState:
    """The state of a topic with this id and number of offsets, for a restore that created the ids ``ours``. An id None means that there is no topic."""
    if topic_id is None:
        return TopicState.MISSING
    if topic_id in set(ours):
        return TopicState.OURS
    # If the process died before it recorded the creation of a topic, the topic is empty.
    return TopicState.STRANGER_FULL if offsets else TopicState.STRANGER_EMPTY
