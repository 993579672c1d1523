"""Names and partitions of what is read from a repository: on the allow-list, and each there once.

A plan or a manifest decides which topics are deleted, created and loaded. Two entries of one name would let the second one undo what was checked of the
first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.ids import is_id
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import checked_name

_NAMED = 5


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


def _damaged(reason: str, where: str, wrong: Iterable[TopicPartition] = ()) -> Damaged:
    return Damaged(
        reason,
        next_step="do not use it: this software writes no such thing; find out who can write to this repository, and verify it",
        where=where,
        partitions=[str(tp) for tp in wrong],
    )
