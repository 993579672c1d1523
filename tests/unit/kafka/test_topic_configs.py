from __future__ import annotations

import pytest

from streams_recovery.kafka.topic_configs import topic_defaults


@pytest.mark.parametrize(
    ("broker", "retention"),
    [
        ({"log.retention.hours": "168"}, "604800000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "5"}, "300000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "5", "log.retention.ms": "7"}, "7"),
        ({"log.retention.hours": "-1"}, "-1"),
        ({"log.retention.hours": "168", "log.retention.ms": "-1"}, "-1"),
        ({}, "-1"),
    ],
)
def test_what_a_topic_without_overrides_has(broker: dict[str, str], retention: str) -> None:
    settings = {**broker, "log.cleanup.policy": "compact,delete", "log.cleaner.min.compaction.lag.ms": "60000"}
    expected = {"cleanup.policy": "compact,delete", "retention.ms": retention, "min.compaction.lag.ms": "60000"}
    assert topic_defaults(settings) == expected
