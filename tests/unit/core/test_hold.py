"""Holds end as they began: whatever was set before is set again, and what was not set is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.hold import (
    MAX,
    HoldEntry,
    HoldPurpose,
    expires_on_release,
    guard_settings,
    needs_guard,
    outstanding,
    released_config,
    topic_hold,
)
from streams_recovery.core.model import TopicDescription
from tests.unit.core.values import DAY

CONFIGS = st.dictionaries(
    st.sampled_from(["cleanup.policy", "min.compaction.lag.ms", "max.compaction.lag.ms", "retention.ms", "segment.bytes"]),
    st.sampled_from(["compact", "0", "1000", MAX]),
)


def described(config: dict[str, str], name: str = "t") -> TopicDescription:
    return TopicDescription(name=name, topic_id=f"{name}-id", partitions=1, replication_factor=1, config=config, leader_epochs=(0,))


def altered(config: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    """What a broker makes of incremental changes: None deletes the override."""
    kept = {key: value for key, value in config.items() if key not in changes}
    return kept | {key: value for key, value in changes.items() if value is not None}


@given(config=CONFIGS)
def test_a_guard_that_is_released_leaves_no_trace(config: dict[str, str]) -> None:
    settings = guard_settings(config)
    hold = topic_hold(described(config), settings)
    under_hold = altered(config, settings)
    assert under_hold["min.compaction.lag.ms"] == MAX
    assert "max.compaction.lag.ms" not in under_hold, "the broker rejects a minimum above the maximum"
    assert altered(under_hold, hold.previous) == config
    assert released_config(under_hold, hold) == config


@pytest.mark.parametrize(
    ("policy", "default", "expected"),
    [(None, "delete", False), (None, "compact", True), ("compact,delete", "delete", True), ("delete", "compact", False)],
)
def test_only_what_the_cleaner_may_compact_is_guarded(policy: str | None, default: str, expected: bool) -> None:
    config = {} if policy is None else {"cleanup.policy": policy}
    assert needs_guard(described(config), default) is expected


def entry(kind: str, run: str, *topics: str, purpose: HoldPurpose = HoldPurpose.COPY) -> HoldEntry:
    held = tuple(topic_hold(described({}, name), {"min.compaction.lag.ms": MAX}) for name in topics)
    return HoldEntry(kind=kind, purpose=purpose, run=run, at=5, topics=held, clear=False)  # type: ignore[arg-type]


def test_a_release_in_parts_ends_what_it_names_of_its_own_run() -> None:
    entries = [
        entry("applied", "r1", "a", "b"),
        entry("applied", "r2", "a", purpose=HoldPurpose.RESTORE),
        entry("released", "r1", "a"),
    ]
    assert [(held.run, held.hold.topic, held.purpose) for held in outstanding(entries)] == [
        ("r1", "b", HoldPurpose.COPY),
        ("r2", "a", HoldPurpose.RESTORE),
    ]
    assert outstanding([*entries, entry("released", "r1", "b"), entry("released", "r2", "a")]) == ()


@pytest.mark.fault("F34")
@pytest.mark.parametrize(
    ("newest", "final", "expected"),
    [
        (0, {"cleanup.policy": "compact,delete", "retention.ms": "1000"}, True),
        (9 * DAY + 1, {"cleanup.policy": "compact,delete", "retention.ms": "1000"}, False),
        (0, {"cleanup.policy": "compact", "retention.ms": "1000"}, False),
        (0, {"cleanup.policy": "compact,delete", "retention.ms": "-1"}, False),
        (0, {"cleanup.policy": "compact,delete"}, False),
        (None, {"cleanup.policy": "delete", "retention.ms": "1"}, False),
    ],
)
def test_retention_goes_back_only_when_nothing_live_expires(newest: int | None, final: dict[str, str], expected: bool) -> None:
    assert expires_on_release(newest, final, 10 * DAY, DAY) is expected
