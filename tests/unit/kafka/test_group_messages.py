"""What a description of a group says of what its members read; unknown is not nothing.

Groups of the newer protocols, as their coordinator describes them.
"""

from __future__ import annotations

from types import SimpleNamespace
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.kafka_types import GroupDescription, TopicPartition
from streams_recovery.kafka.group_messages import classic_topics, describe_group, in_use, input_topics, topics_of
from tests.support.kafka.scripted_clients import Script, ScriptedClients


def classic(*members: tuple[Any, Any], kind: str = "consumer", error: str | None = None) -> dict[str, Any]:
    said = [{"member_metadata": metadata, "member_assignment": assignment} for metadata, assignment in members]
    return {"error": error, "protocol_type": kind, "members": said}


@pytest.mark.parametrize(
    ("group", "topics"),
    [
        (classic(({"topics": ["a"]}, {"assigned_partitions": [{"topic": "b"}]})), {"a", "b"}),
        (classic(({"topics": ["a"]}, b""), ({"topics": ["c"]}, b"")), {"a", "c"}),
        (classic(({"topics": ["a"]}, b""), (b"", b"")), None),
        (classic((b"not a subscription", b"")), None),
        (classic(), None),
        (classic(error="not authorized"), None),
        (classic((b"x", b"y"), kind="connect"), set()),
    ],
)
def test_a_classic_group(group: dict[str, Any], topics: set[str] | None) -> None:
    assert classic_topics(group) == topics


def assigned(*names: str) -> SimpleNamespace:
    return SimpleNamespace(topic_partitions=[SimpleNamespace(topic_name=name) for name in names])


def newer(error: int = 0, state: str = "Stable", **member: Any) -> SimpleNamespace:
    known = {"subscribed_topic_names": [], "assignment": assigned(), **member}
    return SimpleNamespace(error_code=error, group_state=state, members=[SimpleNamespace(**known)])


@pytest.mark.parametrize(
    ("group", "topics"),
    [
        (newer(subscribed_topic_names=["a"], assignment=assigned("b"), target_assignment=assigned("c")), {"a", "b", "c"}),
        (newer(subscribed_topic_regex="a.*", assignment=assigned("a1")), {"a1"}),
        (newer(state="Assigning", subscribed_topic_regex="a.*", assignment=assigned("a1")), None),
        (newer(error=30), None),
        (newer(), None),
        (SimpleNamespace(error_code=0, topology=SimpleNamespace(subtopologies=[SimpleNamespace(source_topics=["a"])]), members=[]), {"a"}),
        (SimpleNamespace(error_code=0, topology=SimpleNamespace(subtopologies=None), members=[]), None),
    ],
)
def test_a_group_of_a_newer_protocol(group: Any, topics: set[str] | None) -> None:
    assert topics_of(group) == topics


class Described(ScriptedClients):
    """Clients of a cluster with one group, whose coordinator answers this."""

    def __init__(self, kind: str, state: str, answer: Any) -> None:
        super().__init__(pure=Script(list_groups=[[{"group_id": "g", "group_type": kind, "group_state": state}]] * 3))
        self.answer = answer

    def coordinators(self, groups: list[str]) -> dict[str, int]:
        return dict.fromkeys(groups, 1)

    def send(self, request: Any, node: int | None = None, *, within_ms: int | None = None) -> Any:
        assert (request.group_ids, node, within_ms) == (["g"], 1, None)
        return Answer(groups=[self.answer])


def tasks(*ids: tuple[str, list[int]]) -> list[Any]:
    return [Answer(subtopology_id=name, partitions=numbers) for name, numbers in ids]


def streams(state: str = "Stable", *, error: int = 0) -> Any:
    parts = [
        Answer(subtopology_id="0", source_topics=["orders"], repartition_source_topics=[]),
        Answer(subtopology_id="1", source_topics=["prices"], repartition_source_topics=[Answer(name="by-key")]),
    ]
    assignment = Answer(active_tasks=tasks(("0", [0, 2]), ("1", [1])), standby_tasks=tasks(("1", [0])), warmup_tasks=tasks(("0", [1])))
    member = Answer(member_id="m", client_id="c", client_host="/h", instance_id="i", assignment=assignment)
    return Answer(error_code=error, error_message=None, group_state=state, topology=Answer(subtopologies=parts), members=[member])


def test_a_streams_group_has_its_members_their_tasks_and_what_these_read() -> None:
    (member,) = describe_group(Described("streams", "Stable", streams()), "g").members
    assert (member.member_id, member.client_id, member.host, member.group_instance_id) == ("m", "c", "/h", "i")
    assert member.tasks == ("0_0", "0_2", "1_1", "1_0 standby", "0_1 warm-up")
    assert set(member.assigned) == {
        *(TopicPartition("orders", number) for number in (0, 2)),
        *(TopicPartition(name, 1) for name in ("prices", "by-key")),
    }
    assert input_topics(Described("streams", "Stable", streams()), "g") == {"orders", "prices"}


def test_a_share_group_has_its_members_too() -> None:
    assignment = Answer(topic_partitions=[Answer(topic_name="orders", partitions=[1, 0])])
    member = Answer(member_id="m", client_id="c", client_host="/h", assignment=assignment)
    found = describe_group(Described("share", "Stable", Answer(error_code=0, group_state="Stable", members=[member])), "g")
    assert [(one.client_id, one.assigned, one.tasks) for one in found.members] == [
        ("c", (TopicPartition("orders", 0), TopicPartition("orders", 1)), ())
    ]


@pytest.mark.parametrize(
    ("listed", "described", "empty"), [("Stable", "Empty", False), ("Empty", "Stable", False), ("Empty", "Empty", True)]
)
def test_it_is_empty_only_when_both_answers_say_so(listed: str, described: str, empty: bool) -> None:
    answer = streams(described)
    answer.members = []
    assert describe_group(Described("streams", listed, answer), "g").empty is empty


def test_one_that_went_or_reads_what_this_user_may_not_see_is_taken_as_listed_and_another_error_is_one() -> None:
    for error in (69, 29):
        found = describe_group(Described("streams", "Stable", streams(error=error)), "g")
        assert found == GroupDescription(group_id="g", kind="streams", state="Stable", members=())
    assert "of the streams protocol is Stable" in in_use(found, "why").reason
    assert input_topics(Described("streams", "Empty", streams(error=69)), "g") is None
    with pytest.raises(RecoveryError, match="GroupAuthorizationFailedError"):
        describe_group(Described("streams", "Stable", streams(error=30)), "g")


def test_one_without_a_topology_has_no_inputs_that_are_known() -> None:
    answer = streams()
    answer.topology = None
    assert input_topics(Described("streams", "Empty", answer), "g") is None
