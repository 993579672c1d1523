"""A group's committed offsets: read as one settled picture, and replaced all or none.

Neither client can read them alone. kafka-python does not know ``require_stable``: with an open transaction it gives the offset from before. And
confluent-kafka reads metadata past its end, because librdkafka's buffer has no closing NUL: 12 characters came back with bytes of other
objects behind them in most answers. So confluent-kafka shows that nothing is pending, and kafka-python reads the offsets, before and after.

Kafka cannot replace all or none. A commit is answered partition by partition, some may be taken while others are refused, and an answer can be lost
after the broker acted on it. So the old offsets are read first, and put back, byte for byte, when anything went wrong. Not an atomic change: a
reader can see it half done for a moment, and a process that is killed in that moment leaves it so, until the same call is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import Damaged, OffsetsUnstable, RecoveryError, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.remedies.transactions import OFFSETS_TOPIC, find
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients, Deadline
from streams_recovery.kafka.group_messages import describe_group, in_use

Committed = dict[TopicPartition, CommittedOffset | None]

Wanted = Mapping[TopicPartition, CommittedOffset | None]
Refusals = dict[TopicPartition, int]

# The protocol's "unknown error", for a partition that an answer leaves out.
_NO_ANSWER = -1
_MEMBER_JOINED = frozenset({errors.UNKNOWN_MEMBER_ID, errors.NON_EMPTY_GROUP, errors.GROUP_SUBSCRIBED_TO_TOPIC})
_SHOWN = 20


def read_committed_offsets(clients: Clients, group_id: str, partitions: Collection[TopicPartition]) -> Committed:
    """The offsets that ``group_id`` committed for each of ``partitions``, at one moment at which none was unsettled.

    Offsets in an open transaction, and offsets that change while they are read, are asked for again, always all of them: answers of two
    moments are never mixed. Raises ``OffsetsUnstable`` when that takes longer than the clients' timeout.
    """
    if not partitions:
        raise Refused(
            f"no partitions to read committed offsets of group {group_id} for", next_step="check that the application's topics exist"
        )
    deadline = Deadline(clients.timeout)
    while True:
        before = read_unsettled(clients, group_id, partitions)
        settled, pending = _read_settled(clients, group_id, partitions)
        after = read_unsettled(clients, group_id, partitions)
        # A pending partition has no settled offset, so this is false while there is one.
        if before == after and settled == _only_offsets(after):
            return after
        if not deadline.pause(0.02):
            raise _unstable(clients, group_id, pending)


def read_unsettled(clients: Clients, group_id: str, partitions: Collection[TopicPartition] | None) -> Committed:
    """The offsets that the group committed, metadata byte for byte, without regard to open transactions. None for ``partitions`` means all that have
    any.
    """
    requested = None if partitions is None else [PurePartition(*partition) for partition in sorted(set(partitions))]

    def ask() -> dict[PurePartition, OffsetAndMetadata]:
        return dict(clients.pure.list_group_offsets({group_id: requested})[group_id])

    answer = clients.patiently(f"reading the offsets of group {group_id}", ask)
    found = {TopicPartition(*partition): _committed(item) for partition, item in answer.items()}
    missing = sorted(set(partitions or ()) - found.keys())
    if missing:
        raise errors.by_code(None, f"the answer about group {group_id} leaves out {', '.join(map(str, missing[:20]))}")
    return found


def _read_settled(
    clients: Clients, group_id: str, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int | None], list[TopicPartition]]:
    """Offsets, and the partitions whose offsets an open transaction may change. Must not touch the answer's metadata: see the module."""

    def ask() -> list[ClientPartition]:
        requested = ConsumerGroupTopicPartitions(group_id, [ClientPartition(tp.topic, tp.partition) for tp in sorted(set(partitions))])
        answers = clients.librdkafka.list_consumer_group_offsets([requested], require_stable=True, request_timeout=clients.attempt_timeout)
        return list(answers[group_id].result().topic_partitions)

    offsets: dict[TopicPartition, int | None] = {}
    pending: list[TopicPartition] = []
    for item in clients.patiently(f"reading the settled offsets of group {group_id}", ask):
        partition = TopicPartition(item.topic, item.partition)
        code = 0 if item.error is None else int(item.error.code())
        if code == errors.UNSTABLE_OFFSET_COMMIT:
            pending.append(partition)
        elif code:
            raise errors.by_code(code, f"reading the offset of {partition} of group {group_id} failed: {errors.name_of(code)}")
        else:
            # Kafka's -1 arrives as librdkafka's "invalid offset", also below zero: nothing was committed.
            offsets[partition] = item.offset if item.offset >= 0 else None
    return offsets, sorted(pending)


def _only_offsets(committed: Committed) -> dict[TopicPartition, int | None]:
    return {partition: None if found is None else found.offset for partition, found in committed.items()}


def _committed(found: OffsetAndMetadata) -> CommittedOffset | None:
    if found.offset < 0:
        return None
    epoch = found.leader_epoch
    return CommittedOffset(
        offset=found.offset, metadata=found.metadata or "", leader_epoch=epoch if epoch is not None and epoch >= 0 else None
    )


def _unstable(clients: Clients, group_id: str, pending: list[TopicPartition]) -> OffsetsUnstable:
    names = [str(partition) for partition in pending]
    why = (
        f"an open transaction kept {len(names)} of its offsets from settling: {', '.join(names[:20])}"
        if names
        else "its offsets kept changing"
    )
    remedy = find(clients.connection.tools, [OFFSETS_TOPIC])
    return OffsetsUnstable(
        f"group {group_id}: after {clients.timeout:g} s, {why}", next_step=str(remedy), group=group_id, partitions=names
    ).then(*remedy.commands)


def replace_offsets(clients: Clients, group_id: str, wanted: Wanted, *, absent: bool) -> None:
    """Make these the group's committed offsets, None meaning that there is none, and read them back. Other partitions stay. ``absent``
    tells that the group does not exist yet: then it does not exist after an error either.

    Raises ``OffsetsUnstable`` before anything is written while an open transaction could still overwrite them. Any other error names every partition that was
    not taken, and says that all were put back. If that failed too, it is ``Damaged`` and names the old and the present offset of each partition.
    """
    before = read_committed_offsets(clients, group_id, wanted.keys())
    refused: Refusals = {}
    try:
        refused |= _write(clients, group_id, before, wanted)
        if refused:
            raise _not_taken(clients, group_id, wanted, refused)
        _check_read_back(clients, group_id, wanted)
    except RecoveryError as error:
        # A partition that was refused has what it had; one without an answer may have anything.
        suspects = {tp: known for tp, known in before.items() if refused.get(tp, _NO_ANSWER) == _NO_ANSWER}
        raise _put_back(clients, group_id, suspects, error, delete_group=absent) from error


def _write(clients: Clients, group_id: str, now: Mapping[TopicPartition, CommittedOffset | None], wanted: Wanted) -> Refusals:
    """Send it; deletions last, and only of what is there. Returns the code of every partition that was refused."""
    setting = {PurePartition(*tp): _sent(found) for tp, found in sorted(wanted.items()) if found is not None}
    deleting = [PurePartition(*tp) for tp, found in sorted(wanted.items()) if found is None and now[tp] is not None]
    refused: Refusals = {}
    if setting:
        with clients.requesting(f"setting the offsets of group {group_id}"):
            refused |= _refusals(setting, clients.pure.alter_group_offsets(group_id, setting))
    if deleting and not refused:
        refused |= _delete_or_await(clients, group_id, deleting)
    return refused


def _delete_or_await(clients: Clients, group_id: str, partitions: list[PurePartition]) -> Refusals:
    """A broker refuses to delete what is committed on a topic that is gone. It does so by itself, some time after the topic: that is waited for. What it keeps
    is refused in the end.
    """
    deadline, refused = Deadline(clients.timeout), _delete(clients, group_id, partitions)
    while unknown := [PurePartition(*tp) for tp, code in sorted(refused.items()) if code == errors.UNKNOWN_TOPIC_OR_PARTITION]:
        kept = read_unsettled(clients, group_id, [TopicPartition(*tp) for tp in unknown])
        left = [PurePartition(*tp) for tp, found in sorted(kept.items()) if found is not None]
        others = {tp: code for tp, code in refused.items() if code != errors.UNKNOWN_TOPIC_OR_PARTITION}
        if left and not deadline.pause():
            return others | {TopicPartition(*tp): errors.UNKNOWN_TOPIC_OR_PARTITION for tp in left}
        # Asked again: a broker that has only not heard of the topic yet would never forget them.
        refused = others | (_delete(clients, group_id, left) if left else {})
    return refused


def _delete(clients: Clients, group_id: str, partitions: list[PurePartition]) -> Refusals:
    with clients.requesting(f"deleting offsets of group {group_id}"):
        try:
            return _refusals(partitions, clients.pure.delete_group_offsets(group_id, partitions))
        except errors.CLIENT_ERRORS as error:
            # One answer for the whole group, where a commit has one for each partition.
            code = errors.code_of(error)
            if code not in _MEMBER_JOINED:
                raise
            return {TopicPartition(*tp): code for tp in partitions}


def _sent(found: CommittedOffset) -> OffsetAndMetadata:
    return OffsetAndMetadata(found.offset, found.metadata, -1 if found.leader_epoch is None else found.leader_epoch)


def _refusals(requested: Mapping[PurePartition, Any] | list[PurePartition], answers: Mapping[PurePartition, Any]) -> Refusals:
    codes = {TopicPartition(*tp): int(answers[tp].errno) if tp in answers else _NO_ANSWER for tp in requested}
    return {tp: code for tp, code in codes.items() if code != 0}


def _not_taken(clients: Clients, group_id: str, wanted: Wanted, refused: Refusals) -> RecoveryError:
    if _MEMBER_JOINED & set(refused.values()):
        name = errors.name_of(next(code for code in refused.values() if code in _MEMBER_JOINED))
        why = f"a member joined while its offsets were set ({name}): offsets are taken from outside only while a group is empty"
        return in_use(describe_group(clients, group_id), why)
    text = ", ".join(f"{tp} ({errors.name_of(code)})" for tp, code in sorted(refused.items())[:_SHOWN])
    worst = min(refused.values(), key=errors.transient)
    error = errors.by_code(worst, f"group {group_id}: {len(refused)} of {len(wanted)} offsets were not taken: {text}")
    error.facts["offsets"] = len(wanted)
    error.facts["refused"] = {str(tp): errors.name_of(code) for tp, code in refused.items()}
    return error


def _check_read_back(clients: Clients, group_id: str, wanted: Wanted) -> None:
    found = read_unsettled(clients, group_id, wanted.keys())
    differ = [tp for tp, want in sorted(wanted.items()) if not _same(found[tp], want)]
    if differ:
        wrong = [f"{tp}: wanted {_shown(wanted[tp])}, found {_shown(found[tp])}" for tp in differ]
        raise Damaged(
            f"group {group_id} does not have the offsets that were set: {'; '.join(wrong[:_SHOWN])}",
            next_step="make sure that nothing else commits for this group, then set them again",
            group=group_id,
            wanted={str(tp): _shown(wanted[tp]) for tp in differ},
            found={str(tp): _shown(found[tp]) for tp in differ},
        )


def _put_back(clients: Clients, group_id: str, before: Committed, error: RecoveryError, *, delete_group: bool) -> RecoveryError:
    """``error``, told together with what became of the partitions that had been written when it happened."""
    try:
        left, gone = _restored(clients, group_id, before)
        # Kafka makes a group, of the classic kind, of a commit to one that does not exist.
        if delete_group and not left:
            with clients.requesting(f"deleting group {group_id}"):
                clients.pure.delete_groups([group_id])
    except RecoveryError as worse:
        left, gone = dict.fromkeys(before, f"unknown: {worse.reason}"), []
    if not left:
        but = f", but for {', '.join(map(str, gone[:_SHOWN]))}, which the broker has forgotten with the topic" if gone else ""
        facts = error.facts | {"left": {}, "gone": [str(tp) for tp in gone]}
        return type(error)(f"{error.reason}; all offsets are as they were before{but}", next_step=error.next_step, **facts)
    text = "; ".join(f"{tp} had {_shown(before[tp])}, now {now}" for tp, now in sorted(left.items())[:_SHOWN])
    return Damaged(
        f"{error.reason}; and {len(left)} offsets of group {group_id} could not be put back: {text}",
        next_step="keep the application stopped, stop every member of the group, and run this step again",
        group=group_id,
        left={str(tp): now for tp, now in left.items()},
    )


def _restored(clients: Clients, group_id: str, before: Committed) -> tuple[dict[TopicPartition, str], list[TopicPartition]]:
    """Put ``before`` back where it is different now. Returns the partitions that still differ, with their offset, and those that cannot be put back: their
    topics are gone, and the broker has forgotten their offsets.
    """
    now = read_unsettled(clients, group_id, before.keys()) if before else {}
    changed = {tp: known for tp, known in before.items() if now[tp] != known}
    if not changed:
        return {}, []
    refused = _write(clients, group_id, now, changed)
    after = read_unsettled(clients, group_id, changed.keys())
    gone = [tp for tp in sorted(changed) if after[tp] is None and refused.get(tp) == errors.UNKNOWN_TOPIC_OR_PARTITION]
    return {tp: _shown(after[tp]) for tp, known in changed.items() if after[tp] != known and tp not in gone}, gone


def _same(found: CommittedOffset | None, wanted: CommittedOffset | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return found.offset == wanted.offset and found.metadata.encode() == wanted.metadata.encode()


def _shown(committed: CommittedOffset | None) -> str:
    return "nothing" if committed is None else f"{committed.offset} {committed.metadata!r}"
