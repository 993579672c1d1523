"""Settings of topics, and what a broker makes of a change."""

from __future__ import annotations

from hypothesis import strategies as st

from streams_recovery.core.topic_holds.compaction_guard import UNLIMITED

TODAY = 20_778


NUMBERS = st.sampled_from(["1", "5000", "86400000", str(UNLIMITED)])


CONFIGS = st.fixed_dictionaries(
    {"cleanup.policy": st.sampled_from(["compact", "compact,delete"])},
    optional={
        "min.compaction.lag.ms": NUMBERS,
        "max.compaction.lag.ms": NUMBERS,
        "retention.ms": NUMBERS | st.just("-1"),
        "retention.bytes": NUMBERS | st.just("-1"),
        "message.timestamp.before.max.ms": NUMBERS,
        "message.timestamp.after.max.ms": NUMBERS,
        "message.timestamp.type": st.sampled_from(["CreateTime", "LogAppendTime"]),
        "segment.bytes": st.just("1000"),
    },
)


def altered(config: dict[str, str], changes) -> dict[str, str]:
    """What a broker makes of incremental changes: None deletes the override."""
    kept = {key: value for key, value in config.items() if key not in changes}
    return kept | {key: value for key, value in changes.items() if value is not None}
