"""Settings that topics get when a restore makes them: what was in force stays in force, and what does not stands in the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.restore.topic_settings import (
    Override,
    TargetSettings,
    agreed,
    left_out,
    lost_settings,
    restored_overrides,
    room_for,
    setting_warnings,
    to_ask,
)
from streams_recovery.core.topic_settings import InForce, SettingSource
from tests.support.examples.savepoints import image, segment, topic

HERE = {
    "leader.replication.throttled.replicas": "0:1",
    "follower.replication.throttled.replicas": "*",
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "confluent.placement.constraints": "{}",
}
KAFKA = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}
FOR_EVER = KAFKA | {"retention.ms": "-1"}


def saved(config: Mapping[str, str], brokers: Mapping[str, str] | None = None, *, largest: int = 10) -> TopicImage:
    """A topic with these overrides on such brokers, which a savepoint knows nothing of when they are None."""
    known = {} if brokers is None else {name: InForce(value=value, source=SettingSource.STATIC_BROKER) for name, value in brokers.items()}
    own = {name: InForce(value=value, source=SettingSource.TOPIC) for name, value in config.items() if name in known}
    piece = segment(0, 10, [1, 2])
    assert piece.file is not None
    piece = replace(piece, file=replace(piece.file, largest_record=largest))
    return replace(topic((image((piece,)),)), config=dict(config), in_force=known | own)


@pytest.mark.fault("F84")
@given(config=st.dictionaries(st.from_regex(r"[a-k]{1,9}(\.[a-k]{1,9}){1,3}", fullmatch=True), st.text("0123456789", min_size=1)))
def test_every_override_comes_back_but_those_of_the_place(config: dict[str, str]) -> None:
    owner = config | {
        "message.timestamp.after.max.ms": "9223372036854775807",
        "message.timestamp.before.max.ms": "5",
        "segment.jitter.ms": "7",
    }
    assert restored_overrides(saved(owner | HERE), TargetSettings()) == owner
    assert {one.name for one in to_ask([saved(owner), saved(HERE)], {})} == set(owner), "nobody is asked for what would not be set"


@pytest.mark.fault("F84")
def test_what_is_left_out_is_told_with_its_reason_and_nothing_else_is() -> None:
    unknown = Override("message.format.version", "2.8")
    target = TargetSettings(refused={unknown: "Unknown topic config name: message.format.version"})
    owner = {"retention.ms": "-1", unknown.name: unknown.value}
    assert restored_overrides(saved(owner), target) == {"retention.ms": "-1"}
    assert restored_overrides(saved({unknown.name: "3.0"}), target) == {unknown.name: "3.0"}, "it was asked for one value"
    lines = left_out({"a": saved(owner), "b": saved(owner | {"remote.storage.enable": "true"}), "c": saved({"retention.ms": "5"})}, target)
    assert [line.split(" is not set again")[0] for line in lines] == [
        "message.format.version=2.8 of a, b",
        "remote.storage.enable=true of b",
    ]
    assert "Unknown topic config name" in lines[0]
    assert left_out({"c": saved({"retention.ms": "5"})}, target) == ()


@pytest.mark.fault("F85")
@given(
    there=st.sampled_from([KAFKA, FOR_EVER]), here=st.sampled_from([KAFKA, FOR_EVER, {}]), own=st.sampled_from([{}, {"retention.ms": "5"}])
)
def test_what_counts_on_a_restored_topic_is_what_counted_before(there: dict[str, str], here: dict[str, str], own: dict[str, str]) -> None:
    target = TargetSettings(defaults=here)
    made = restored_overrides(saved(own, there), target)
    for name in ("retention.ms", "retention.bytes", "cleanup.policy", "message.timestamp.type", "message.timestamp.after.max.ms"):
        assert {**here, **made}[name] == {**there, **own}[name]
    same = there == here
    assert not same or made == own, "where nothing differs nothing is set"
    assert not same or setting_warnings({"t": saved(own, there)}, target) == ()
    assert "delete.retention.ms" not in made, "it counts only where the topic is compacted"


@pytest.mark.fault("F85")
def test_what_is_set_for_the_first_time_and_what_a_person_has_to_decide_stand_in_the_plan() -> None:
    topics = {
        "a": saved({}, FOR_EVER | {"min.insync.replicas": "2"}),
        "b": saved({}, FOR_EVER),
        "c": saved({"retention.ms": "5"}, FOR_EVER),
    }
    lower, kept = setting_warnings(topics, TargetSettings(defaults=KAFKA))
    assert kept == "retention.ms=-1 is set on a, b: that was in force there, and the brokers here have 604800000"
    assert lower.startswith("min.insync.replicas=2 was in force on a by the brokers there, and the brokers here have 1")
    unknown = setting_warnings({"b": topics["b"]}, TargetSettings())
    assert any(line.endswith("what the brokers here have is not known") for line in unknown)
    compacted = saved({"cleanup.policy": "compact"}, KAFKA | {"min.compaction.lag.ms": "7", "retention.ms": "-1"})
    assert restored_overrides(compacted, TargetSettings(defaults=KAFKA)) == {"cleanup.policy": "compact", "min.compaction.lag.ms": "7"}
    assert agreed([KAFKA, FOR_EVER]) == {name: value for name, value in KAFKA.items() if name != "retention.ms"}


@pytest.mark.fault("F86")
@pytest.mark.parametrize(
    ("own", "there", "here", "largest", "limit"),
    [
        ({}, "1048588", "1048588", 1_000_000, None),
        ({}, "6000000", "1048588", 10, "6000000"),
        ({}, "1048588", "6000000", 10, None),
        ({}, "1048588", "1048588", 2_500_000, str(room_for(2_500_000))),
        ({"max.message.bytes": "9000000"}, "1048588", "1048588", 2_500_000, "9000000"),
        ({"max.message.bytes": "1000"}, "1048588", "1048588", 2_500_000, str(room_for(2_500_000))),
        ({"max.message.bytes": "2000"}, "1048588", "1048588", 10, "2000"),
        ({}, "6000000", None, 10, "6000000"),
    ],
)
def test_a_topic_takes_its_largest_record_and_what_it_took_before(
    own: dict[str, str], there: str, here: str | None, largest: int, limit: str | None
) -> None:
    target = TargetSettings(defaults={} if here is None else {"max.message.bytes": here})
    made = restored_overrides(saved(own, {"max.message.bytes": there}, largest=largest), target)
    assert made.get("max.message.bytes") == limit
    assert int(limit or here or 0) >= largest


@pytest.mark.fault("F85")
def test_what_was_in_force_is_asked_for_too_and_what_is_not_taken_stands_in_the_plan() -> None:
    topics = {"a": saved({}, KAFKA | {"max.message.bytes": "20000000"}, largest=2_500_000)}
    older = {name: value for name, value in KAFKA.items() if name != "message.timestamp.before.max.ms"}
    unknown = Override("message.timestamp.before.max.ms", KAFKA["message.timestamp.before.max.ms"])
    large, enough = (Override("max.message.bytes", str(size)) for size in (20_000_000, room_for(2_500_000)))
    assert to_ask(topics.values(), older) == {unknown, large, enough}
    target = TargetSettings(defaults=older, refused={unknown: "Unknown topic config name", large: "exceeded max limit of 8388608"})
    assert restored_overrides(topics["a"], target) == dict([enough])
    lines = setting_warnings(topics, target)
    assert [line.split(" on a")[0] for line in lines] == [f"{enough} is set", f"{unknown} is not set"]
    assert "of 20000000, which counted there, this cluster says: exceeded max limit of 8388608" in lines[0]
    assert "Unknown topic config name" in lines[1]
    assert lost_settings(topics, target) == (), "brokers before 3.6 take any timestamp"


MORE = {"cleanup.policy": "compact,delete"}


@pytest.mark.fault("F105")
@pytest.mark.parametrize(
    ("setting", "value", "here", "more", "refuses"),
    [
        ("cleanup.policy", "compact", "delete", {}, True),
        ("cleanup.policy", "compact", None, {}, True),
        ("cleanup.policy", "compact,delete", "delete, compact", {}, False),
        ("retention.ms", "-1", "604800000", {}, True),
        ("retention.ms", "5", "604800000", {}, False),
        ("retention.ms", "5", None, {}, True),
        ("retention.ms", "5", "-1", {}, False),
        ("retention.ms", "-1", "604800000", {"cleanup.policy": "compact"}, False),
        ("retention.bytes", "-1", "1000", {}, True),
        ("retention.bytes", "-1", "-1", {}, False),
        ("min.compaction.lag.ms", "7", "0", MORE, True),
        ("min.compaction.lag.ms", "7", "0", {}, False),
        ("min.compaction.lag.ms", "0", None, MORE, False),
        ("delete.retention.ms", "7", "1", MORE, False),
        ("message.timestamp.type", "CreateTime", "LogAppendTime", {}, True),
        ("message.timestamp.before.max.ms", "9223372036854775807", None, {}, False),
        ("message.timestamp.before.max.ms", "9223372036854775807", "1000", {}, True),
        ("message.timestamp.after.max.ms", "9223372036854775807", "3600000", {}, True),
        ("min.insync.replicas", "2", "1", {}, False),
        ("segment.bytes", "1000", "1073741824", {}, False),
        ("compression.type", "zstd", "producer", {}, False),
        ("a.vendor.knows", "1", None, {}, False),
    ],
)
@pytest.mark.parametrize("own", [True, False], ids=["of its owner", "of the brokers"])
def test_what_decides_which_records_are_kept_and_taken_is_not_left_out_with_a_warning(
    setting: str, value: str, here: str | None, more: dict[str, str], refuses: bool, own: bool
) -> None:
    known = {name: one for name, one in KAFKA.items() if name != setting} | ({} if here is None else {setting: here})
    saved_one = saved(more | {setting: value} if own else more, KAFKA | ({} if own else {setting: value}))
    target = TargetSettings(defaults=known, refused={Override(setting, value): "a policy forbids it"})
    lost = lost_settings({"t": saved_one}, target)
    assert bool(lost) == refuses
    assert all(line.startswith(f"{setting}={value} of t (a policy forbids it; ") for line in lost)
    assert not own or any(f"{setting}={value}" in line for line in setting_warnings({"t": saved_one}, target)), "it is told in each case"


@pytest.mark.fault("F105")
@pytest.mark.parametrize(
    ("largest", "here", "refuses"),
    [(2_500_000, "1048588", True), (2_500_000, None, True), (2_500_000, "9000000", False), (10, "1048588", False), (10, None, False)],
)
def test_a_target_that_cannot_take_the_largest_record_is_refused(largest: int, here: str | None, refuses: bool) -> None:
    topics = {"t": saved({"max.message.bytes": "9000000"}, largest=largest)}
    target = TargetSettings(defaults={} if here is None else {"max.message.bytes": here})
    target = replace(
        target,
        refused=dict.fromkeys([*to_ask(topics.values(), target.defaults), Override("max.message.bytes", str(room_for(largest)))], "no"),
    )
    assert bool(lost_settings(topics, target)) == refuses


@given(
    own=st.dictionaries(st.sampled_from([*KAFKA, "segment.bytes", "remote.storage.enable"]), st.sampled_from(["-1", "5", "2000000"])),
    there=st.sampled_from([KAFKA, FOR_EVER, {}]),
    here=st.sampled_from([KAFKA, FOR_EVER, {}]),
    largest=st.sampled_from([10, 1_500_000, 2_500_000]),
    data=st.data(),
)
def test_of_each_setting_of_a_topic_one_line_is_said(
    own: dict[str, str], there: dict[str, str], here: dict[str, str], largest: int, data: st.DataObject
) -> None:
    topics = {"t": saved(own, there, largest=largest)}
    bare = TargetSettings(defaults=here)
    asked = sorted({*to_ask(topics.values(), here), *(Override(one, str(room_for(largest))) for one in ["max.message.bytes"])})
    refused = data.draw(st.sets(st.sampled_from(asked)))
    target = replace(bare, refused=dict.fromkeys(refused, "no"))
    names = [line.split("=")[0] for line in setting_warnings(topics, target)]
    assert sorted(names) == sorted(set(names))
    assert {one.name for one in refused if own.get(one.name) == one.value} <= set(names), (
        "what its owner had set is not left out in silence"
    )
