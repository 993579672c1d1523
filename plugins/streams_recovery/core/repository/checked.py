"""Checks of values that were read from a repository: names, partitions, numbers and references to tables.

A plan or a manifest decides which topics are deleted, created and loaded. So names must be on the allow-list, and each there once: with two entries of one name
the second would undo the check of the first. Numbers must be within Kafka's own limits: they are sent to a broker later, or counted with. No table is read for
its check.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import checked_name
from streams_recovery.core.repository.range_table import MOST_RANGES
from streams_recovery.core.repository.ranges import ArchiveFacts, TableRef
from streams_recovery.core.words import is_id

_NAMED = 5
# Kafka's protocol has 32 bits for a leader epoch, and 16 for a replication factor.
_MOST_EPOCH: Final = 2**31 - 1
_MOST_REPLICAS: Final = 2**15 - 1
_LONG: Final = 2**63
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES: Final = 512 << 20


def check_names(what: str, names: Iterable[str], *, where: str) -> None:
    """Raise ``Damaged`` naming the first of ``names`` that is not on the allow-list, or those that are there twice."""
    counted = Counter(names)
    for name in counted:
        try:
            checked_name(what, name)
        except ConfigInvalid as error:
            raise _damaged(f"{where}: {error.reason}", where) from error
    twice = sorted(name for name, times in counted.items() if times > 1)
    if twice:
        raise _damaged(f"{where} has {what} {', '.join(twice[:_NAMED])} more than once", where)


def check_ids(ids: Iterable[str | None], *, where: str) -> None:
    """Raise ``Damaged`` naming the first that does not have the form of a savepoint's id. None stands for no savepoint."""
    for one in ids:
        if one is not None and not is_id(one):
            raise _damaged(f"{where} names savepoint {one[:200]!r}, which is not an id", where)


def check_numbered(topic: str, partitions: Sequence[int], *, where: str) -> None:
    """Raise ``Damaged`` unless these are all partitions of a topic, from 0 on, each once."""
    if sorted(partitions) != list(range(len(partitions))):
        raise _damaged(f"{where} has partitions {sorted(partitions)[:20]} of {topic}, which are not those from 0 on, each once", where)


def check_partitions(what: str, partitions: Iterable[TopicPartition], *, where: str) -> None:
    """Raise ``Damaged`` for a partition that no topic can have, one that is there twice, and a topic's name that is not on the allow-list."""
    counted = Counter(partitions)
    check_names("topic", {tp.topic for tp in counted}, where=where)
    wrong = sorted(tp for tp, times in counted.items() if times > 1 or tp.partition < 0)
    if wrong:
        raise _damaged(
            f"{where} has {what} of {', '.join(map(str, wrong[:_NAMED]))} more than once, or there is no such partition", where, wrong
        )


def check_segment_key(key: str, application_id: str, about: TopicPartition, *, where: str) -> None:
    """Raise ``Damaged`` for a file that is not one of the application's segments."""
    inside = f"{application_id}/segments/"
    if not key.startswith(inside) or "\\" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise _damaged(f"{where} names {key[:200]!r} for {about}, which is not below {inside}", where)


def check_epoch(epoch: int | None, *, what: str, where: str) -> None:
    """Raise ``Damaged`` for a leader epoch that no broker gives."""
    if epoch is not None and not 0 <= epoch <= _MOST_EPOCH:
        raise _wrong_number(f"{where} has the leader epoch {epoch} of {what}, which is none", where)


def check_replicas(factor: int, *, topic: str, where: str) -> None:
    """Raise ``Damaged`` for a replication factor that no topic can have."""
    if not 1 <= factor <= _MOST_REPLICAS:
        raise _wrong_number(f"{where} has the replication factor {factor} of {topic}, which is none", where)


def check_settings(settings: Mapping[str, str], *, topic: str, where: str) -> None:
    """Raise ``Damaged`` for a duration among these settings of a topic that is no whole number: Kafka has them all in whole milliseconds."""
    for name, value in settings.items():
        if name.endswith(".ms") and not _is_long(value):
            raise _wrong_number(f"{where} has {name} {value[:50]!r} for {topic}, which is no whole number of milliseconds", where)


def check_tables(topics: Iterable[tuple[str, Sequence[TableRef], Sequence[ArchiveFacts]]], *, where: str) -> None:
    """Raise ``Damaged`` for a malformed hash, a size above what is read, and tables that hold more or fewer ranges than the partitions have."""
    total = 0
    for name, tables, partitions in topics:
        held = sum(table.ranges for table in tables)
        total += held
        check_refs(name, tables, where=where)
        counted = held == sum(facts.ranges for facts in partitions) and all(facts.possible for facts in partitions)
        if not counted or total > MOST_RANGES:
            raise _wrong_table(name, tables, where)


def check_refs(topic: str, tables: Sequence[TableRef], *, where: str) -> None:
    """Raise ``Damaged`` for tables of one topic with a malformed hash, or with a size above what is read."""
    named = len({table.sha256 for table in tables}) == len(tables) and all(_SHA256.fullmatch(table.sha256) for table in tables)
    if not named or not all(0 < table.bytes <= _MOST_BYTES and table.ranges > 0 for table in tables):
        raise _wrong_table(topic, tables, where)


def _damaged(reason: str, where: str, wrong: Iterable[TopicPartition] = ()) -> Damaged:
    return Damaged(
        reason,
        next_step="do not use it: this software writes no such thing; find out who can write to this repository, and verify it",
        where=where,
        partitions=[str(tp) for tp in wrong],
    )


def _is_long(value: str) -> bool:
    try:
        return -_LONG <= int(value) < _LONG
    except ValueError:
        return False


def _wrong_number(reason: str, where: str) -> Damaged:
    return Damaged(reason, next_step="do not use this savepoint; verify the repository and choose another one", where=where)


def _wrong_table(topic: str, tables: Sequence[TableRef], where: str) -> Damaged:
    return Damaged(
        f"{where} names tables of {topic} that cannot be: {sum(table.ranges for table in tables)} ranges in {len(tables)} tables",
        next_step="do not use this savepoint; verify the repository and choose another one",
        where=where,
        topic=topic,
    )
