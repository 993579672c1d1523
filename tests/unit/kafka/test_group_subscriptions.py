"""What a description of a group says of what its members read; unknown is not nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streams_recovery.kafka.group_subscriptions import classic_topics, topics_of


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
