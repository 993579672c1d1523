"""Asking the application, once it is at work again, for some of the keys that it was restored with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streams_recovery.application.port import AnswerTooLarge
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import StoreKind, TopicPartition
from streams_recovery.core.repository.journal import Phase, result_of
from streams_recovery.core.restore.plan import RestorePlan, TopicToCreate
from streams_recovery.core.restore.query_check import QueryCheck, judge
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import entries
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.segments.queries import last_rows

QUERIED: Final = "queried"
KEYS: Final = 100
_PARTITIONS: Final = 4
# What the application wrote since is read to leave those keys out. More than this is not read, and the store is not asked.
_TAIL: Final = 500_000
# An answer is ahead of the changelog until the next commit, which with a cache writes what was changed since the one before. Two of them, and this.
_PATIENCE: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queried:
    """What was asked, store by store."""

    stores: tuple[QueryCheck, ...]


def query_stores(recovery: RecoveryContext, planned: RestorePlan, *, patience: float | None = None) -> tuple[QueryCheck, ...]:
    """Ask for the newest keys of every key-value store that is declared ``queryable``, and compare. Raises ``Damaged`` when an answer is not what was
    restored, also after ``patience`` seconds (by default, two commits and a margin), and what asking raises.
    """
    patience = 2 * recovery.config.application.commit_interval_seconds + _PATIENCE if patience is None else patience
    topics = {topic.name: topic for topic in planned.create}
    found = []
    for store in recovery.config.queryable:
        topic = topics.get(f"{recovery.application_id}-{store}-changelog")
        if topic is not None and recovery.config.store_kind(store) is StoreKind.KEY_VALUE:
            found += _asked(recovery, store, topic, patience)
    different = [f"{one.store}: {', '.join(one.different[:3])}" for one in found if one.different]
    if different:
        raise Damaged(
            f"{recovery.application_id} answers otherwise than it was restored: {'; '.join(different)}",
            next_step="stop it: what it has is not what was verified; look for local state that was not wiped, then restore again",
            stores=different,
        )
    return tuple(found)


def queried_before(recovery: RecoveryContext, ticket: RestoreTicket) -> tuple[QueryCheck, ...]:
    """What ``query_stores`` found, by the journal of a restore that is resumed after that; nothing when it did not run."""
    result = result_of(entries(recovery, ticket), Phase.RECOVERED)
    return () if result is None else recovery.artifacts.read(Queried, result).stores


def _asked(recovery: RecoveryContext, store: str, topic: TopicToCreate, patience: float) -> list[QueryCheck]:
    loaded = {TopicPartition(topic.name, part.partition): part.rows for part in topic.partitions}
    sample = _sample(recovery, topic)
    if not sample or sum(recovery.cluster.high_watermarks(list(loaded)).values()) - sum(loaded.values()) > _TAIL:
        return []
    latest: list[QueryCheck] = []

    def agrees() -> bool | None:
        # The answer first: what is written to the changelog meanwhile is then read afterwards, and left out.
        answers = recovery.application.query(store)
        latest.append(judge(store, sample, answers, _changed(recovery, loaded)))
        return None if latest[-1].different else True

    try:
        what = f"answers of store {store} that agree with its changelog"
        poll(agrees, seconds=patience, interval=1.0, what=what, message=lambda: f"{latest[-1].different} of {len(sample)} keys differ")
    except AnswerTooLarge:
        # It was asked and can tell nothing; what was loaded is proven without it.
        return []
    return latest[-1:]


def _sample(recovery: RecoveryContext, topic: TopicToCreate) -> dict[bytes, bytes]:
    """Newest values by key, from the ends of some logs: a row that no later one of its key follows is the state of it."""
    filled = [part for part in topic.partitions if part.files and part.cut is None][:_PARTITIONS]
    newest: dict[bytes, bytes] = {}
    for part in filled:
        rows = last_rows(recovery.repository, part.files[-1], KEYS // len(filled))
        state = {key: value for key, value in rows if key is not None}
        newest |= {key: value for key, value in state.items() if value is not None}
    return newest


def _changed(recovery: RecoveryContext, loaded: dict[TopicPartition, int]) -> set[bytes]:
    """Keys that were written again behind what was loaded."""
    ends = recovery.cluster.last_stable_offsets(list(loaded))
    keys: set[bytes] = set()
    for tp, rows in loaded.items():
        if ends[tp] > rows:
            with RangeReader(recovery.connection, tp, rows, ends[tp]) as reader:
                for batch in reader:
                    keys.update(key for key in batch.column("key").to_pylist() if key is not None)
    return keys
