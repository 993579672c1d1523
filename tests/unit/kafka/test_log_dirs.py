"""What a broker answers about its directories, as it travels."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeLogDirsResponse

from streams_recovery.core.errors import PermanentError, Refused
from streams_recovery.kafka.log_dirs import LogDir, directories_of

RESULT = DescribeLogDirsResponse.DescribeLogDirsResult
TOPIC = RESULT.DescribeLogDirsTopic
PARTITION = TOPIC.DescribeLogDirsPartition


def result(**changes: Any) -> Any:
    partitions = [PARTITION(partition_index=at, partition_size=100 + at, offset_lag=0, is_future_key=False) for at in range(3)]
    return RESULT(**{"error_code": 0, "log_dir": "/data", "topics": [TOPIC(name="orders-in", partitions=partitions)], **changes})


def answered(*results: Any, version: int = 4, code: int = 0) -> list[LogDir]:
    sent = DescribeLogDirsResponse(throttle_time_ms=0, error_code=code, results=list(results)).encode(version=version)
    return list(directories_of(1, DescribeLogDirsResponse.decode(sent, version=version)))


def test_sizes_of_all_partitions_are_added_up_and_the_space_is_that_of_the_disk() -> None:
    assert answered(result(total_bytes=1000, usable_bytes=400)) == [
        LogDir(broker=1, path="/data", total_bytes=1000, free_bytes=400, topics={"orders-in": 303})
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_broker_does_not_tell_the_space(version: int) -> None:
    (found,) = answered(result(), version=version)
    assert (found.total_bytes, found.free_bytes, found.topics) == (None, None, {"orders-in": 303})


@pytest.mark.parametrize(("version", "code"), [(1, 0), (4, 31)], ids=["by an empty answer", "by its code"])
def test_a_broker_that_refuses_is_no_empty_broker(version: int, code: int) -> None:
    with pytest.raises(Refused, match="ClusterAuthorizationFailed"):
        answered(version=version, code=code)


def test_a_directory_that_cannot_be_read_is_named() -> None:
    with pytest.raises(PermanentError, match="broker 1 cannot read /data: KafkaStorageError"):
        answered(result(error_code=56))
