from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import ConfigSource  # type: ignore[attr-defined]  # public, but its stubs do not say so

from streams_recovery.core.errors import NotFound, Refused, TransientError
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from tests.support.kafka.scripted_clients import Script, ScriptedClients, future, offsets, refusal

BROKERS = SimpleNamespace(brokers={1: None, 2: None}, topics={}, cluster_id="c")


def overrides(**settings: str) -> Callable[[Iterable[Any]], dict[Any, Any]]:
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    entries = {name.replace("_", "."): SimpleNamespace(value=value, source=own) for name, value in settings.items()}
    return lambda resources: {resource: future(entries) for resource in resources}


def shape(*leaders: int) -> list[dict[str, object]]:
    partitions = [
        {"partition_index": number, "leader_id": leader, "leader_epoch": 0 if leader >= 0 else -1, "replica_nodes": [1, 2]}
        for number, leader in enumerate(leaders)
    ]
    return [{"name": "t", "topic_id": str(uuid.UUID(int=1)), "error_code": 0, "partitions": partitions}]


def cluster(librdkafka: Script, pure: Script | None = None, timeout: float = 5.0) -> KafkaCluster:
    opened = KafkaCluster(KafkaConnection(bootstrap_servers="nowhere:1", properties={}))
    opened._clients = ScriptedClients(librdkafka=librdkafka, pure=pure, timeout=timeout)
    return opened


def test_a_setting_has_arrived_when_every_broker_shows_it() -> None:
    answers = [overrides(), *[overrides(), overrides(retention_ms="5")] * 2]
    client = Script(incremental_alter_configs=[{}], list_topics=[BROKERS], describe_configs=answers)
    cluster(client).change_configs(["t"], lambda found: {} if found.get("retention.ms") == "5" else {"retention.ms": "5"})
    assert [options.get("broker") for verb, _, options in client.asked if verb == "describe_configs"] == [None, 1, 1, 2, 2]


def test_an_override_of_one_topic_that_is_refused_is_an_error() -> None:
    refused = {"a": future(None), "b": future(refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED))}
    client = Script(incremental_alter_configs=[refused], describe_configs=[overrides()])
    with pytest.raises(Exception, match="altering topic configurations failed"):
        cluster(client).change_configs(["a", "b"], add_one)


def test_a_connection_that_is_missing_is_not_waited_for() -> None:
    asked = []

    def look_up() -> KafkaConnection:
        asked.append(1)
        raise NotFound("connection kafka_default is not defined", next_step="define it")

    with KafkaCluster(look_up, timeout=5.0) as opened, pytest.raises(NotFound):
        opened.describe_topics(["t"])
    assert asked == [1]


def test_nothing_to_change_asks_nothing() -> None:
    client = Script()
    cluster(client).change_configs([], add_one)
    assert client.asked == []


def add_one(config: Mapping[str, str]) -> Mapping[str, str]:
    """A change that somebody else's change can undo."""
    here = config.get("x", "")
    return {} if "1" in here else {"x": f"{here}1"}


def test_what_somebody_else_overwrites_is_read_and_altered_again() -> None:
    answers = [overrides(), overrides(), overrides(x="1"), *[overrides(x="2")] * 20, overrides(x="21"), overrides(x="21")]
    client = Script(incremental_alter_configs=[{}, {}], list_topics=[BROKERS, BROKERS], describe_configs=answers)
    cluster(client).change_configs(["t"], add_one)
    sent = [args[0][0].incremental_configs[0].value for verb, args, _ in client.asked if verb == "incremental_alter_configs"]
    assert sent == ["1", "21"]


def test_a_setting_that_others_fight_for_is_named_in_the_end() -> None:
    client = Script(incremental_alter_configs=[{}] * 9, list_topics=[BROKERS] * 9, describe_configs=[overrides()] * 99)
    with pytest.raises(TransientError, match="others have altered") as caught:
        cluster(client, timeout=0.15).change_configs(["t"], add_one)
    missing = caught.value.facts["missing"]
    assert isinstance(missing, dict)
    assert missing["t"]["x"].startswith("1")


def test_what_is_as_it_should_be_is_not_altered() -> None:
    client = Script(describe_configs=[overrides(x="1")])
    cluster(client).change_configs(["t"], add_one)
    assert [verb for verb, _, _ in client.asked] == ["describe_configs"]


def test_a_new_topic_is_there_when_each_of_its_partitions_has_a_leader_that_answers() -> None:
    not_leader = refusal(KafkaError.NOT_LEADER_FOR_PARTITION)
    client = Script(list_offsets=[offsets({0: 0, 1: not_leader}), offsets({1: 0})], describe_configs=[overrides()])
    created = {"topics": [{"name": "t", "error_code": 0}]}
    unready = [[{"name": "t", "error_code": 3, "partitions": []}], shape(1), shape(1, -1)]
    pure = Script(create_topics=[created], describe_topics=[*unready, shape(1, 2), shape(1, 2)])
    topic = cluster(client, pure).create_topic("t", partitions=2, replication_factor=2, config={})
    assert (topic.partitions, topic.replication_factor, topic.leader_epochs) == (2, 2, (0, 0))
    assert [verb for verb, _, _ in client.asked] == ["list_offsets", "list_offsets", "describe_configs"]


def answer(**codes: int) -> dict[str, object]:
    return {"topics": [{"name": name, "error_code": code} for name, code in codes.items()]}


def test_topics_that_are_too_many_for_a_quota_are_asked_for_again_and_no_others() -> None:
    shapes = [{**shape(1)[0], "name": name} for name in "ab"]
    client = Script(list_offsets=[offsets({0: 0})], describe_configs=[overrides(), overrides()])
    pure = Script(create_topics=[answer(a=0, b=89), answer(b=89), answer(b=0)], describe_topics=[shapes, shapes])
    cluster(client, pure).create_topics({"a": (1, 1, {}), "b": (1, 1, {})})
    assert [sorted(args[0]) for verb, args, _ in pure.asked if verb == "create_topics"] == [["a", "b"], ["b"], ["b"]]


def test_a_quota_that_stays_is_an_error_that_may_pass_and_any_other_answer_ends_it_at_once() -> None:
    with pytest.raises(TransientError, match="creating topic b failed: ThrottlingQuotaExceeded"):
        cluster(Script(), Script(create_topics=[answer(a=0, b=89), *[answer(b=89)] * 50]), timeout=0.15).create_topics(
            {"a": (1, 1, {}), "b": (1, 1, {})}
        )
    with pytest.raises(Refused, match="topic c already exists"):
        cluster(Script(), Script(create_topics=[answer(a=0, b=89, c=36)])).create_topics({name: (1, 1, {}) for name in "abc"})


def test_a_quota_that_lets_one_by_one_through_is_waited_for_as_long_as_that_goes_on() -> None:
    names = "abcdefgh"
    left = [
        answer(**{name: 89 if name >= after else 0 for name in names if name >= before})
        for before, after in itertools.pairwise(["a", *"bcdefgh", "i"])
    ]
    shapes = [{**shape(1)[0], "name": name} for name in names]
    pure = Script(create_topics=left, describe_topics=[shapes, shapes])
    client = Script(list_offsets=[offsets({0: 0})], describe_configs=[overrides()] * 8)
    # Eight looks take longer than this together.
    assert len(cluster(client, pure, timeout=0.15).create_topics({name: (1, 1, {}) for name in names})) == 8


def test_no_request_is_larger_than_a_controller_takes() -> None:
    pure = Script(create_topics=[answer(a=0), answer(b=44, c=0), answer(d=0)])
    wanted = {"a": (5_000, 1, {}), "b": (1_500, 1, {}), "c": (500, 1, {}), "d": (1, 1, {})}
    assert list(cluster(Script(), pure).refused_topics(wanted)) == ["b"]
    assert [sorted(args[0]) for _, args, _ in pure.asked] == [["a"], ["b", "c"], ["d"]]


def test_a_new_topic_that_gets_no_leaders_is_an_error() -> None:
    pure = Script(create_topics=[{"topics": [{"name": "t", "error_code": 0}]}], describe_topics=[shape(1, -1)] * 50)
    with pytest.raises(TransientError, match="leaders for 1 of 2 partitions"):
        cluster(Script(), pure, timeout=0.15).create_topic("t", partitions=2, replication_factor=2, config={})


def test_an_unknown_leader_epoch_is_none() -> None:
    topic = cluster(Script(describe_configs=[overrides()]), Script(describe_topics=[shape(1, -1)])).describe_topics(["t"])["t"]
    assert topic.leader_epochs == (0, None)
    assert topic.topic_id == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_topic_that_metadata_has_and_configurations_have_not_is_described_again() -> None:
    gone = {name: future(refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)) for name in ("t",)}
    client = Script(describe_configs=[gone_for(gone), overrides(retention_ms="5")])
    topics = cluster(client, Script(describe_topics=[shape(1), shape(1)])).describe_topics(["t"])
    assert topics["t"].config == {"retention.ms": "5"}


def test_a_topic_that_stays_between_is_neither_there_nor_absent() -> None:
    gone = {"t": future(refusal(KafkaError.UNKNOWN_TOPIC_OR_PART))}
    client = Script(describe_configs=[gone_for(gone)] * 50)
    with pytest.raises(TransientError, match="neither there nor gone"):
        cluster(client, Script(describe_topics=[shape(1)] * 50), timeout=0.15).describe_topics(["t"])


def gone_for(answers: dict[str, Any]) -> Callable[[Iterable[Any]], dict[Any, Any]]:
    return lambda resources: {resource: answers[resource.name] for resource in resources}


def deleted(**codes: int) -> dict[str, object]:
    """The answer for topics, each with the id of its place among them."""
    return {"topics": [{"name": None, "topic_id": str(uuid.UUID(int=at)), "error_code": code} for at, code in enumerate(codes.values(), 1)]}


IDS = {name: f"AAAAAAAAAAAAAAAAAAAAA{letter}" for name, letter in (("t", "Q"), ("u", "g"))}


@pytest.mark.parametrize("codes", [(0, 100), (3, 0)], ids=["no such id", "no such name"])
def test_topics_are_deleted_by_their_ids_and_what_is_gone_is_passed_over(codes: tuple[int, int]) -> None:
    client = Script(list_topics=[SimpleNamespace(topics={})])
    pure = Script(delete_topics=[deleted(t=codes[0], u=codes[1])], describe_topics=[[]])
    cluster(client, pure).delete_exactly(IDS)
    ((_, (asked,), _),) = [call for call in pure.asked if call[0] == "delete_topics"]
    assert asked == [uuid.UUID(int=1), uuid.UUID(int=2)]


def test_a_topic_that_has_the_name_of_a_deleted_one_and_another_id_is_not_waited_for() -> None:
    client = Script(list_topics=[SimpleNamespace(topics={"t": None})])
    pure = Script(delete_topics=[deleted(t=100)], describe_topics=[[{**shape(1)[0], "topic_id": str(uuid.UUID(int=7))}]])
    cluster(client, pure).delete_exactly({"t": IDS["t"]})


@pytest.mark.fault("F115")
def test_topics_that_are_too_many_to_be_deleted_at_once_are_asked_for_again_and_no_others() -> None:
    client = Script(list_topics=[SimpleNamespace(topics={})])
    second = {"topics": [{"name": None, "topic_id": str(uuid.UUID(int=2)), "error_code": code} for code in (89,)]}
    pure = Script(delete_topics=[deleted(t=0, u=89), second, deleted(t=0, u=0)], describe_topics=[[]])
    cluster(client, pure).delete_exactly(IDS)
    asked = [args[0] for verb, args, _ in pure.asked if verb == "delete_topics"]
    assert asked == [[uuid.UUID(int=1), uuid.UUID(int=2)], [uuid.UUID(int=2)], [uuid.UUID(int=2)]]


def test_a_topic_that_may_not_be_deleted_is_named() -> None:
    with pytest.raises(Refused, match="deleting topic u failed: TopicAuthorizationFailed"):
        cluster(Script(), Script(delete_topics=[deleted(t=0, u=29)])).delete_exactly(IDS)


def test_topics_that_stay_after_their_deletion_are_named() -> None:
    still = SimpleNamespace(brokers={1: None}, topics={"t": None, "other": None})
    pure = Script(delete_topics=[deleted(t=0)], describe_topics=[shape(1)] * 50)
    with pytest.raises(TransientError, match=r"still there after their deletion: \['t'\]"):
        cluster(Script(list_topics=[still] * 50), pure, timeout=0.15).delete_topics(["t"])


def test_a_topic_that_one_answer_still_has_is_not_gone() -> None:
    with_it, without_it = SimpleNamespace(topics={"t": None}), SimpleNamespace(topics={})
    absent = [{"name": "t", "error_code": 3, "partitions": []}]
    client = Script(list_topics=[with_it, without_it, without_it])
    pure = Script(delete_topics=[deleted(t=0)], describe_topics=[absent, shape(1), absent])
    cluster(client, pure).delete_exactly({"t": IDS["t"]})
    assert len(client.asked) == 3


@pytest.mark.fault("F84")
@pytest.mark.parametrize(("plain", "told"), [(0, True), (44, False)], ids=["takes a topic without settings", "takes no such topic"])
def test_a_policy_that_forbids_a_setting_is_asked_with_the_replicas_of_the_topic(plain: int, told: bool) -> None:
    answer = {
        "topics": [
            {"name": "t-asked", "error_code": plain, "error_message": None},
            {"name": "t-asked-0", "error_code": 0 if not plain else 44, "error_message": "replicas"},
            {"name": "t-asked-1", "error_code": 44, "error_message": "exceeded min limit of 14400000"},
        ]
    }
    pure = Script(create_topics=[answer])
    settings = [("retention.ms", "-1"), ("segment.ms", "60000")]
    refused = cluster(Script(), pure).refused_settings("t", settings, replicas=3)
    assert refused == ({settings[1]: "exceeded min limit of 14400000"} if told else {})
    ((_, (asked, *_), options),) = pure.asked
    assert options["validate_only"]
    assert {name: one["replication_factor"] for name, one in asked.items()} == dict.fromkeys(("t-asked", "t-asked-0", "t-asked-1"), 3)


@pytest.mark.fault("F84")
def test_settings_are_asked_with_one_replica_where_there_are_fewer_brokers_than_replicas() -> None:
    def answer(first: int, second: int) -> dict[str, Any]:
        return {
            "topics": [
                {"name": name, "error_code": code, "error_message": None} for name, code in (("t-asked", first), ("t-asked-0", second))
            ]
        }

    pure = Script(create_topics=[answer(38, 38), answer(0, 40)])
    assert cluster(Script(), pure).refused_settings("t", [("retention.ms", "-1")], replicas=3) == {
        ("retention.ms", "-1"): "InvalidConfigurationError"
    }
    assert [asked["t-asked"]["replication_factor"] for _, (asked, *_), _ in pure.asked] == [3, 1]


@pytest.mark.fault("F90")
def test_a_controller_that_is_busy_or_over_its_quota_has_refused_no_topic() -> None:
    def answer(**codes: int) -> dict[str, Any]:
        return {"topics": [{"name": name, "error_code": code, "error_message": None} for name, code in codes.items()]}

    pure = Script(create_topics=[answer(a=0, b=89), answer(b=41), answer(b=44)])
    assert cluster(Script(), pure).refused_topics({"a": (1, 1, {}), "b": (1, 1, {})}) == {"b": "PolicyViolationError"}
    assert [list(asked) for _, (asked, *_), _ in pure.asked] == [["a", "b"], ["b"], ["b"]]
    with pytest.raises(TransientError, match="ThrottlingQuotaExceeded"):
        cluster(Script(), Script(create_topics=[answer(b=89)] * 50), timeout=0.01).refused_topics({"b": (1, 1, {})})
