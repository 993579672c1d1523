"""What counts on a topic, and where it comes from."""

from __future__ import annotations

import pytest

from streams_recovery.core.topic_holds.compaction_guard import guarded, owner_config
from streams_recovery.core.topic_settings import InForce, SettingSource, held, without_hold

LAG, RETENTION = "min.compaction.lag.ms", "retention.ms"


@pytest.mark.fault("F85")
@pytest.mark.parametrize("owner", [{}, {RETENTION: "5"}, {LAG: "7", RETENTION: "5"}])
def test_a_hold_is_never_what_counts_on_a_topic(owner: dict[str, str]) -> None:
    on_topic = {**owner, **guarded(owner, {3}, 20_000)}
    by_broker = {LAG: InForce(value="0", source=SettingSource.DEFAULT), RETENTION: InForce(value="-1", source=SettingSource.STATIC_BROKER)}
    raw = by_broker | {name: InForce(value=value, source=SettingSource.TOPIC) for name, value in on_topic.items()}
    assert owner_config(on_topic) == owner
    assert held(raw, owner) == (LAG not in owner)
    assert not held(by_broker, {})
    found = without_hold(raw, owner, {LAG: "60000"})
    lag = InForce(value="7", source=SettingSource.TOPIC) if LAG in owner else InForce(value="60000", source=SettingSource.BROKER)
    assert found == {RETENTION: raw[RETENTION], LAG: lag}
    assert (LAG in without_hold(raw, owner, {})) == (LAG in owner), "what nobody knows is not said"
