"""Asking the application, once it is at work again, for some of the keys that it was restored with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.application.port import AnswerTooLarge, ForeignOwner, NoKeyRoute
from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import StoreKind, TopicPartition
from streams_recovery.core.repository.journal import Phase, result_of
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import TopicToCreate
from streams_recovery.core.restore.proofs import QueryCheck, chosen, judge, judge_keys
from streams_recovery.core.state.key_query import KeyQuestion, as_answered, key_text
from streams_recovery.core.state.table import Format, ValueFormat
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import entries
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.segments.queries import last_rows

LOGGER = logger("streams_recovery.operations.restore.query_check")

QUERIED: Final = "queried"
# So many keys of each queryable store are asked of the running application, at least one of each partition that has records.
SAMPLED_KEYS: Final = 100
# So many rows at the end of a partition are looked at for keys that have a value.
_LOOKED_AT: Final = 5_000
# What the application wrote since is read to leave those keys out. More than this is not read, and the store is not asked.
_TAIL: Final = 500_000
# Longer values, and more of them together, are not asked for: as JSON they may be six times as long, and of an answer only so much is read.
_LONGEST_VALUE: Final = 512 << 10
_MOST_BYTES: Final = 4 << 20
# An answer is ahead of the changelog until the next commit, which with a cache writes what was changed since the one before. Two of them, and this.
_PATIENCE: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queried:
    """The checks that were made, store by store."""

    stores: tuple[QueryCheck, ...]


def query_stores(recovery: RecoveryContext, planned: RestorePlan, *, patience: float | None = None) -> tuple[QueryCheck, ...]:
    """Ask for the newest keys of every key-value store that is declared ``queryable``, of each partition that has records, and compare. Each key is asked of
    the instance that has it; an application without such a route is asked for the store as a whole. Any other store that is ``queryable`` is not asked, and has
    no ``sampled`` keys in what is returned. Raises ``Damaged`` when an answer differs from the restored value still after ``patience`` seconds (by default, two
    commits and a margin), and the errors of asking.
    """
    patience = 2 * recovery.config.application.commit_interval_seconds + _PATIENCE if patience is None else patience
    topics = {topic.name: topic for topic in planned.create}
    found = []
    for store in recovery.config.queryable:
        topic = topics.get(f"{recovery.application_id}-{store}-changelog")
        if topic is None:
            found.append(_not_asked(store, "this restore has not loaded a changelog of it"))
        elif (kind := recovery.config.store_kind(store)) is not StoreKind.KEY_VALUE:
            found.append(_not_asked(store, f"only key-value stores are asked, and its kind is {kind}"))
        else:
            found.append(_asked(recovery, store, topic, patience))
    different = [f"{one.store}: {', '.join(one.different[:3])}" for one in found if one.different]
    if different:
        raise Damaged(
            f"{recovery.application_id} answers otherwise than it was restored: {'; '.join(different)}",
            next_step="stop it: what it has is not what was verified; look for local state that was not wiped, then restore again",
            stores=different,
        )
    return tuple(found)


def queried_before(recovery: RecoveryContext, ticket: RestoreTicket) -> tuple[QueryCheck, ...]:
    """The result of ``query_stores``, by the journal of a restore that is resumed after that; nothing when it did not run."""
    result = result_of(entries(recovery, ticket), Phase.RECOVERED)
    return () if result is None else recovery.artifacts.read(Queried, result).stores


def _not_asked(store: str, why: str) -> QueryCheck:
    LOGGER.warning("the application was not asked for keys of store %s: %s", store, why)
    return QueryCheck(store=store, sampled=0, equal=0, changed=0, unreadable=0, different=())


def _asked(recovery: RecoveryContext, store: str, topic: TopicToCreate, patience: float) -> QueryCheck:
    loaded = {TopicPartition(topic.name, part.partition): part.rows for part in topic.partitions}
    sample = sampled(recovery, topic)
    if not sample:
        return _not_asked(store, "the savepoint has no key of it that could be asked for")
    if sum(recovery.cluster.high_watermarks(list(loaded)).values()) - sum(loaded.values()) > _TAIL:
        return _not_asked(store, f"the application has written more than {_TAIL:,} records to its changelog since")
    latest: list[QueryCheck] = []

    def agrees() -> bool | None:
        latest.append(_judged(recovery, store, sample, loaded))
        return None if latest[-1].different else True

    try:
        what = f"answers of store {store} that agree with its changelog"
        poll(agrees, seconds=patience, interval=1.0, what=what, message=lambda: f"{latest[-1].different} of {len(sample)} keys differ")
    except AnswerTooLarge as error:
        # The load is proven without it.
        return _not_asked(store, f"the answer has more than {error.facts.get('limit')} bytes, which is all that is read")
    except NoKeyRoute as error:
        return _not_asked(store, error.reason)
    return latest[-1] if latest[-1].sampled else _not_asked(store, "only deleted keys were found, and of these a whole store tells nothing")


def _judged(recovery: RecoveryContext, store: str, sample: Mapping[bytes, bytes | None], loaded: dict[TopicPartition, int]) -> QueryCheck:
    """The answers are always read first: what is written to the changelog meanwhile is then read afterwards, and left out."""
    declared = recovery.config.stores[store]
    keys, values = (ValueFormat(format=one or Format.BYTES) for one in (declared.key, declared.value))
    texts = {key: text for key in _short(sample) if (text := key_text(keys, key)) is not None}
    try:
        if texts:
            answers = recovery.application.query_keys([KeyQuestion(store=store, key=text) for text in texts.values()])
            verdicts = {key: as_answered(values, sample[key], answer) for key, answer in zip(texts, answers, strict=True)}
            return judge_keys(store, sample, verdicts, _changed(recovery, loaded))
    except (NoKeyRoute, ForeignOwner, ConfigInvalid) as error:
        # A key may be too long for a path, or be read otherwise than it is written here. Only instances that are configured are asked in either way.
        # The reason has the address with the key, and a log of a task shows no data.
        LOGGER.info("store %s is asked as a whole, because its keys cannot be asked one by one: %s", store, type(error).__name__)
    whole = recovery.application.query(store)
    return judge(store, {key: value for key, value in sample.items() if value is not None}, whole, _changed(recovery, loaded))


def _short(sample: Mapping[bytes, bytes | None]) -> Iterator[bytes]:
    """The keys whose values can be asked for together."""
    left = _MOST_BYTES
    for key, value in sample.items():
        length = len(value or b"")
        if length <= min(left, _LONGEST_VALUE):
            left -= length
            yield key


def sampled(recovery: RecoveryContext, topic: TopicToCreate, most: int = SAMPLED_KEYS) -> dict[bytes, bytes | None]:
    """Newest values by key, from the ends of all logs that have records: a row that no later one of its key follows is the state of it."""
    filled = [part for part in topic.partitions if part.files and part.cut is None]
    sample: dict[bytes, bytes | None] = {}
    for part in filled:
        newest: dict[bytes, bytes | None] = {}
        for key, value in last_rows(recovery.repository, part.files[-1], _LOOKED_AT):
            if key is not None:
                newest.pop(key, None)
                newest[key] = value
        sample |= chosen(newest, max(1, most // len(filled)))
    return sample


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
