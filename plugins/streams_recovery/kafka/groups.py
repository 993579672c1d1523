"""Consumer groups: what they committed, who is in them, and putting offsets back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from kafka.admin import MemberToRemove

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, GroupDescription, GroupMember, ListedGroup, TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import ClusterVerbs, Deadline
from streams_recovery.kafka.group_messages import (
    describe_group,
    in_use,
    input_topics,
    list_group_kinds,
    live_subscriptions,
    read_by,
    share_positions,
)
from streams_recovery.kafka.known_topology import KnownTopology, known_topology
from streams_recovery.kafka.offset_commit import read_committed_offsets, read_unsettled, replace_offsets


class ConsumerGroups(ClusterVerbs):
    """The groups of one cluster. Verbs raise ``BrokerUnavailable`` when no broker answers and ``TransientError`` when the cluster stayed busy.
    It cannot tell whether an application is gone, only whether its group is empty: a live member that is evicted comes back.
    """

    def describe(self, group_id: str) -> GroupDescription:
        """The group, of kind ``absent`` when the cluster does not list it."""
        return describe_group(self._clients, group_id)

    def listed(self) -> dict[str, ListedGroup]:
        """Every group of the cluster, by its id."""
        return dict(sorted(list_group_kinds(self._clients).items()))

    def input_topics(self, group_id: str) -> frozenset[str] | None:
        """The inputs of a group of the streams protocol, by its topology. None when its coordinator has none."""
        return input_topics(self._clients, group_id)

    def known_topology(self, group_id: str) -> KnownTopology:
        """What the coordinator knows of the topology of a group: only of one of the streams protocol."""
        return known_topology(self._clients, group_id)

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """The committed offset of the group for each of ``partitions``, None without one; all at one moment, with no open transaction over any.

        Raises ``OffsetsUnstable`` naming the partitions whose offsets an open transaction kept from settling, and ``Refused`` when there is
        nothing to ask for.
        """
        return read_committed_offsets(self._clients, group_id, partitions)

    def committed_partitions(self, group_id: str) -> tuple[TopicPartition, ...]:
        """Every partition that the group has a committed offset for. A first commit in an open transaction does not count yet."""
        return tuple(sorted(partition for partition, found in read_unsettled(self._clients, group_id, None).items() if found is not None))

    def subscribed(self, *, but: str) -> dict[str, frozenset[str] | None]:
        """The topics that live members of every other group than ``but`` read, None if the cluster does not tell. See ``live_subscriptions``."""
        return live_subscriptions(self._clients, but=but)

    def read_by(self, group_id: str) -> frozenset[str] | None:
        """The topics that live members of a group read, also those that this user may not see; None if the cluster does not tell."""
        return read_by(self._clients, group_id)

    def share_positions(self, groups: Collection[str]) -> dict[str, frozenset[str]]:
        """The topics in which the cluster keeps a position of these share groups."""
        return share_positions(self._clients, groups)

    def last_committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The offset that the group committed last for each partition that it has a commit for, whether or not an open transaction is changing it: for
        those who only look.
        """
        found = read_unsettled(self._clients, group_id, None)
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """Make ``offsets`` what the group has committed, metadata byte for byte, then read them back: all of them, or none. None deletes.

        A leader epoch is left out: it belongs to the old log. Raises ``ApplicationRunning`` with the members of a group that is not empty
        and ``OffsetsUnstable`` while an open transaction could still overwrite the offsets; nothing is written then. Raises ``NotFound``,
        ``Refused`` or ``TransientError`` naming every partition that the cluster did not take, and ``Damaged`` when its offsets afterwards differ from those
        that were sent; everything was put back then, and where that failed, ``Damaged`` says so for each partition.
        """
        if not offsets:
            raise Refused(f"no offsets to set for group {group_id}", next_step="check the savepoint: its application had committed nothing")
        group = self.describe(group_id)
        if not group.empty:
            raise in_use(group, "it must be empty for setting its offsets")
        wanted = {tp: _without_epoch(found) for tp, found in offsets.items()}
        replace_offsets(self._clients, group_id, wanted, absent=group.kind == "absent")

    def evict(self, group_id: str, members: Collection[GroupMember]) -> None:
        """Remove members that are proven gone, to save the wait for the end of their sessions. Members that have left are passed over.

        Only the classic protocol lets an outsider do this. Raises ``Refused`` for a group of another kind.
        """
        if not members:
            return
        group = self.describe(group_id)
        if group.kind not in ("classic", "absent"):
            raise Refused(
                f"members of group {group_id} of the {group.kind} protocol cannot be removed from outside",
                next_step="wait until their sessions have timed out",
                group=group_id,
                kind=group.kind,
            )
        leaving = [MemberToRemove(member_id=member.member_id, group_instance_id=member.group_instance_id) for member in members]
        with self._clients.requesting(f"removing members of group {group_id}"):
            answers = self._clients.pure.remove_group_members(group_id, leaving)
        for member, kind in answers.items():
            if kind.errno not in (0, errors.UNKNOWN_MEMBER_ID):
                raise errors.by_code(kind.errno, f"removing {member} from group {group_id} failed: {kind.__name__}")

    def wait_empty(self, group_id: str, timeout: float, *, settle: float = 2.0, waiting: Callable[[str], object] = str) -> GroupDescription:
        """Wait until the group is empty, then for ``settle`` more seconds in which it must stay so; it is seen empty at least twice. Times are in seconds.

        An evicted member that is alive after all leaves its group empty for a second or so, then joins again: one look would miss it.
        ``waiting`` is called after each look, with what was seen. Raises ``ApplicationRunning`` naming the members, or the state of a group without
        members that are known.
        """
        deadline = Deadline(timeout)
        settled: Deadline | None = None
        while True:
            group = self.describe(group_id)
            waiting(f"it is {group.state} with {len(group.members)} members")
            if not group.empty:
                settled = None
                if not deadline.pause(0.2):
                    raise in_use(group, f"it did not become empty within {timeout:g} s")
            elif settled is None:
                settled = Deadline(settle)
            elif not settled.pause(0.2):
                return group

    def delete(self, group_id: str) -> None:
        """Delete the group with its offsets. One that does not exist is passed over. Raises ``ApplicationRunning`` when it has members."""

        def ask() -> int:
            answer = str(self._clients.pure.delete_groups([group_id])[group_id])
            code = 0 if answer == "OK" else errors.code_named(answer)
            if code not in (0, errors.GROUP_ID_NOT_FOUND, errors.NON_EMPTY_GROUP):
                raise errors.by_code(code, f"deleting group {group_id} failed: {answer}")
            return code

        if self._clients.patiently(f"deleting group {group_id}", ask) == errors.NON_EMPTY_GROUP:
            raise in_use(self.describe(group_id), "a group with members cannot be deleted")


def _without_epoch(found: CommittedOffset | None) -> CommittedOffset | None:
    return None if found is None else replace(found, leader_epoch=None)
