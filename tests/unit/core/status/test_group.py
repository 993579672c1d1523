from __future__ import annotations

from streams_recovery.core.kafka_types import GroupDescription, TopicPartition, TopicRole
from streams_recovery.core.lag import Lag
from streams_recovery.core.status.group import group_lag

GROUP = GroupDescription(group_id="shop", kind="classic", state="Stable", members=())


def test_a_group_is_told_with_the_lag_of_each_partition() -> None:
    commits = (70, None, 10, 120)
    lags = {TopicPartition("in", number): Lag(committed=offset, start=40, stable=90, end=100) for number, offset in enumerate(commits)}
    found = group_lag(GROUP, dict.fromkeys(lags, TopicRole.INPUT), dict(reversed(lags.items())))
    assert [(one.partition, one.committed, one.behind, one.undecided, one.gone) for one in found.partitions] == [
        (0, 70, 20, 10, 0),
        (1, None, 50, 10, 0),
        (2, 10, 50, 10, 30),
        (3, 120, 0, 0, 0),
    ]
    assert found.behind == 120
