"""Settings that topics get again when a restore makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.restore.topic_settings import Override, TargetSettings, left_out, restored_overrides, to_ask

HERE = {
    "leader.replication.throttled.replicas": "0:1",
    "follower.replication.throttled.replicas": "*",
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "confluent.placement.constraints": "{}",
}


@pytest.mark.fault("F84")
@given(config=st.dictionaries(st.from_regex(r"[a-k]{1,9}(\.[a-k]{1,9}){1,3}", fullmatch=True), st.text("0123456789", min_size=1)))
def test_every_override_comes_back_but_those_of_the_place(config: dict[str, str]) -> None:
    owner = config | {
        "message.timestamp.after.max.ms": "9223372036854775807",
        "message.timestamp.before.max.ms": "5",
        "segment.jitter.ms": "7",
    }
    assert restored_overrides(owner | HERE, TargetSettings()) == owner
    assert {one.name for one in to_ask([owner, HERE])} == set(owner), "nobody is asked for what would not be set"


@pytest.mark.fault("F84")
def test_what_is_left_out_is_told_with_its_reason_and_nothing_else_is() -> None:
    unknown = Override("message.format.version", "2.8")
    target = TargetSettings(refused={unknown: "Unknown topic config name: message.format.version"})
    owner = {"retention.ms": "-1", unknown.name: unknown.value}
    assert restored_overrides(owner, target) == {"retention.ms": "-1"}
    assert restored_overrides({unknown.name: "3.0"}, target) == {unknown.name: "3.0"}, "it was asked for one value"
    told = left_out({"a": owner, "b": owner | {"remote.storage.enable": "true"}, "c": {"retention.ms": "5"}}, target)
    assert [line.split(" is not set again")[0] for line in told] == [
        "remote.storage.enable=true of b",
        "message.format.version=2.8 of a, b",
    ]
    assert "Unknown topic config name" in told[1]
    assert left_out({"c": {"retention.ms": "5"}}, target) == ()
