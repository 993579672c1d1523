from __future__ import annotations

from streams_recovery.core.kafka_types import CommittedOffset, GroupDescription, TopicPartition, TopicRole
from streams_recovery.core.status.group import group_lag

GROUP = GroupDescription(group_id="shop", kind="classic", state="Stable", members=())


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata="", leader_epoch=None)


def test_it_is_behind_by_what_is_there_and_not_read() -> None:
    read, unread, trimmed, ahead = (TopicPartition("in", number) for number in range(4))
    found = group_lag(
        GROUP,
        dict.fromkeys((ahead, trimmed, unread, read), TopicRole.INPUT),
        {read: committed(70), unread: None, trimmed: committed(10), ahead: committed(120)},
        dict.fromkeys((read, unread, trimmed, ahead), 40),
        dict.fromkeys((read, unread, trimmed, ahead), 100),
    )
    assert [(one.partition, one.committed, one.behind, one.lost) for one in found.partitions] == [
        (0, 70, 30, 0),
        (1, None, 60, 0),
        (2, 10, 60, 30),
        (3, 120, 0, 0),
    ]
    assert found.behind == 150
