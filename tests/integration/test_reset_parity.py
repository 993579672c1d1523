"""Kafka's application reset tool and a rebuild, beside each other on two equal applications: committed offsets and internal topics are the same afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.cli.rebuild import OF_THE_RESET_TOOL
from streams_recovery.config.offsets import inside, offset_strategy
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.clients import Deadline
from streams_recovery.operations import restore
from streams_recovery.operations.restore import RestoreRequest, SafetyPolicy
from tests.support.applications.rebuilds import cleared
from tests.support.applications.restore_steps import verified
from tests.support.applications.small import STREAMS_METADATA, asked
from tests.support.applications.topic_records import transaction
from tests.support.applications.twins import STREAM_TIME, Twin, leave_a_member, twin
from tests.support.kafka.consumers import member
from tests.support.kafka.secured_broker import ADMIN, PASSWORDS, Secured
from tests.support.programs.reset_tool import ResetTool, help_text, reset_tool

pytestmark = pytest.mark.kafka

ALL = ("--input-topics", "{first},{second}")
BOTH_GONE: set[str] = set()
BEGINNING = {"app.in-0": (0, ""), "app.second-0": (0, ""), "app.second-1": (0, "")}


@dataclass(frozen=True)
class Row:
    """Arguments of the tool, the fields of a rebuild that say the same, and the offsets that both must lead to: without them equal could mean that neither did
    anything.
    """

    arguments: tuple[str, ...]
    offsets: str
    expected: dict[str, tuple[int, str]]
    fields: dict[str, Any] = field(default_factory=dict)
    file: str = ""


KEPT = {"app.second-0": (2, STREAM_TIME), "app.second-1": (1, STREAM_TIME)}
ROWS = {
    "no option": Row(ALL, "earliest", BEGINNING),
    "to-earliest": Row((*ALL, "--to-earliest"), "earliest", BEGINNING),
    "to-latest": Row((*ALL, "--to-latest"), "latest", {"app.in-0": (5, ""), "app.second-0": (6, ""), "app.second-1": (3, "")}),
    "to-offset": Row((*ALL, "--to-offset", "4"), "offset:4", {"app.in-0": (4, ""), "app.second-0": (4, ""), "app.second-1": (3, "")}),
    "to-datetime": Row(
        (*ALL, "--to-datetime", "2024-01-02T12:00:01.500"),
        "timestamp:2024-01-02T12:00:01.5Z",
        {"app.in-0": (0, ""), "app.second-0": (2, ""), "app.second-1": (2, "")},
    ),
    "by-duration": Row(
        (*ALL, "--by-duration", "PT1H"), "duration:PT1H", {"app.in-0": (0, ""), "app.second-0": (6, ""), "app.second-1": (3, "")}
    ),
    "shift-by": Row((*ALL, "--shift-by", "-2"), "shift:-2", {"app.in-0": (2, ""), "app.second-0": (0, ""), "app.second-1": (0, "")}),
    "from-file": Row(
        (*ALL, "--from-file", "{file}"),
        "file:offsets.csv",
        {"app.in-0": (3, ""), "app.second-0": (5, ""), "app.second-1": (0, "")},
        file="{first},0,3\n{second},0,5\n{second},1,0\n",
    ),
    "input-topics": Row(("--input-topics", "{first}"), "earliest", {"app.in-0": (0, ""), **KEPT}, fields={"input_topics": ("{first}",)}),
}


@pytest.fixture(scope="module")
def tool() -> Iterator[ResetTool]:
    with reset_tool() as started:
        yield started


@pytest.fixture
def theirs(bootstrap: str, tmp_path: Path) -> Iterator[Twin]:
    with twin(bootstrap, tmp_path / "theirs") as made:
        yield made


@pytest.fixture
def ours(bootstrap: str, tmp_path: Path) -> Iterator[Twin]:
    with twin(bootstrap, tmp_path / "ours") as made:
        yield made


def called(tool: ResetTool, one: Twin, *arguments: str) -> tuple[int, str]:
    place = ("--bootstrap-server", one.recovery.connection.bootstrap_servers, "--application-id", one.id)
    return tool.call(*place, *map(one.named, arguments))


def reset(tool: ResetTool, one: Twin, *arguments: str) -> str:
    """The tool has done it."""
    code, said = called(tool, one, *arguments)
    assert code == 0, said
    return said


def request_of(one: Twin, offsets: str, directory: Path, **fields: Any) -> RestoreRequest:
    """What the tool is told by a prefix of names, a rebuild is told by names, unless the request names all that go."""
    named = {name: tuple(map(one.named, value)) for name, value in fields.items()}
    if "internal_topics" not in fields:
        named["delete"] = one.internal
    strategy = offset_strategy(one.recovery.config, offsets, read=inside(directory))
    return asked(one.recovery, restore.Rebuild, replace=True, safety=SafetyPolicy.SKIP, offsets=strategy, **named)


def rebuild(one: Twin, request: RestoreRequest) -> None:
    """Up to the offsets: there are no instances that could start."""
    ticket = cleared(one.recovery, request)
    restore.verify_cleared(one.recovery, ticket, verified(one.recovery, ticket))
    restore.set_offsets(one.recovery, ticket)
    restore.abandon(one.recovery, ticket)


def settled(see: Callable[[], object], wanted: object) -> object:
    """What is seen, once it is what is wanted: the broker deletes topics, and offsets on them, after it has answered."""
    deadline = Deadline(20)
    while (found := see()) != wanted and deadline.pause(0.2):
        pass
    return found


def compare(theirs: Twin, ours: Twin, expected: dict[str, tuple[int, str]], internal: set[str] = BOTH_GONE) -> None:
    for one in (theirs, ours):
        assert settled(one.internal_topics, internal) == internal
        assert settled(one.offsets, expected) == expected


def test_each_option_of_the_tool_has_its_counterpart() -> None:
    options = set(re.findall(r"^(?:\* )?(--[a-z][a-z-]*)", help_text(), re.MULTILINE))
    assert options == {*OF_THE_RESET_TOOL, "--input-topics", "--internal-topics", "--help", "--version"}


@pytest.mark.deep
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_an_option_of_the_tool_and_its_counterpart_leave_the_same(
    row: Row, tool: ResetTool, theirs: Twin, ours: Twin, tmp_path: Path
) -> None:
    assert theirs.offsets() == ours.offsets() != row.expected
    assert theirs.internal_topics() == ours.internal_topics() != BOTH_GONE
    file = tmp_path / "tool.csv"
    file.write_text(theirs.named(row.file))
    (tmp_path / "offsets.csv").write_text(ours.named(row.file))
    reset(tool, theirs, *(argument.replace("{file}", str(file)) for argument in row.arguments))
    rebuild(ours, request_of(ours, row.offsets, tmp_path, **row.fields))
    compare(theirs, ours, row.expected)


@pytest.mark.deep
def test_internal_topics_that_are_named_go_and_those_of_a_longer_id_stay(tool: ResetTool, theirs: Twin, ours: Twin, tmp_path: Path) -> None:
    for one in (theirs, ours):
        one.recovery.cluster.create_topic(f"{one.id}-eu-counts-changelog", partitions=1, replication_factor=1, config={})
        metadata = CommittedOffset(offset=1, metadata=STREAMS_METADATA, leader_epoch=None)
        one.recovery.groups.set_offsets(f"{one.id}-eu", {TopicPartition(one.first, 0): metadata})
    named = ("{changelog}", "{repartition}")
    reset(tool, theirs, *ALL, "--internal-topics", ",".join(named))
    with pytest.raises(Refused, match="would stay") as caught:
        restore.plan(ours.recovery, request_of(ours, "earliest", tmp_path, internal_topics=named[:1]))
    assert caught.value.facts == {"topics": [ours.internal[1]]}
    with pytest.raises(Refused, match="are no internal topics"):
        restore.plan(ours.recovery, request_of(ours, "earliest", tmp_path, internal_topics=(*named, "{id}-eu-counts-changelog")))
    rebuild(ours, request_of(ours, "earliest", tmp_path, internal_topics=named))
    compare(theirs, ours, BEGINNING, {"app-eu-counts-changelog"})
    for one in (theirs, ours):
        one.recovery.cluster.delete_topics([f"{one.id}-eu-counts-changelog"])


def test_a_dry_run_and_a_plan_change_nothing(tool: ResetTool, theirs: Twin, ours: Twin, tmp_path: Path) -> None:
    before, there = theirs.offsets(), theirs.internal_topics()
    said = reset(tool, theirs, *ALL, "--dry-run")
    planned = restore.plan(ours.recovery, request_of(ours, "earliest", tmp_path))
    assert all(topic in said for topic in theirs.internal)
    assert {gone.name for gone in planned.delete} == set(ours.internal)
    compare(theirs, ours, before, there)
    assert [item.wanted.offset for item in planned.offsets] == [0, 0, 0]


@pytest.mark.deep
def test_force_removes_any_member_and_a_rebuild_none_of_a_process_that_it_does_not_know(
    tool: ResetTool, theirs: Twin, ours: Twin, tmp_path: Path
) -> None:
    for one in (theirs, ours):
        leave_a_member(one)
        assert one.members() == 1
    code, said = called(tool, theirs, *ALL)
    assert (code, "is still active" in said) == (1, True)
    reset(tool, theirs, *ALL, "--force")
    groups, before = ours.recovery.groups, ours.offsets()
    with pytest.raises(Refused, match="no known instance accounts for"):
        rebuild(ours, request_of(ours, "earliest", tmp_path))
    assert (ours.members(), ours.offsets()) == (1, before)
    groups.evict(ours.id, groups.describe(ours.id).members)
    rebuild(ours, request_of(ours, "earliest", tmp_path))
    compare(theirs, ours, BEGINNING)
    assert theirs.members() == ours.members() == 0


@pytest.mark.deep
def test_a_member_that_runs_is_not_removed_here(ours: Twin, tmp_path: Path) -> None:
    before, there = ours.offsets(), ours.internal_topics()
    with member(ours.recovery, ours.id, ours.first), pytest.raises(Refused, match="it-member"):
        rebuild(ours, request_of(ours, "earliest", tmp_path))
    assert (ours.offsets(), ours.internal_topics()) == (before, there)


@pytest.mark.deep
def test_the_end_is_before_an_open_transaction_where_the_tool_is_told_so(tool: ResetTool, theirs: Twin, ours: Twin, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("isolation.level=read_committed\n")
    with transaction(theirs.recovery) as producer:
        for one in (theirs, ours):
            producer.produce(one.first, b"v", b"k", 0)
        producer.flush(30)
        reset(tool, theirs, *ALL, "--to-latest", "--command-config", str(settings))
        rebuild(ours, request_of(ours, "latest", tmp_path))
        compare(theirs, ours, ROWS["to-latest"].expected)
        producer.abort_transaction(30)


@pytest.mark.deep
def test_what_the_table_says_of_the_tool_is_true(tool: ResetTool, theirs: Twin, tmp_path: Path) -> None:
    """It and a rebuild differ here on purpose; another version of it may not."""
    recovery, first = theirs.recovery, theirs.small.input
    longer = f"{theirs.id}-eu-counts-changelog"
    recovery.cluster.create_topic(longer, partitions=1, replication_factor=1, config={})
    processed = {tp: found for tp, found in theirs.offsets().items() if "repartition" not in tp}
    leave_a_member(theirs)
    reset(tool, theirs, "--dry-run", "--force")
    assert theirs.members() == 0, "removed although nothing is to be done"
    assert len(theirs.internal_topics()) == 3
    reset(tool, theirs)
    assert settled(theirs.internal_topics, BOTH_GONE) == BOTH_GONE, "also the topic of a longer id"
    assert settled(theirs.offsets, processed) == processed, "no input is named, and none is moved"

    def begins(code: int, *arguments: str) -> int:
        found, said = called(tool, theirs, *arguments)
        assert found == code, said
        return theirs.offsets()["app.in-0"][0]

    assert begins(1, "--input-topics", "{first},nobody") == 0, "a topic that does not exist is passed over"
    recovery.groups.set_offsets(theirs.id, {first: None})
    assert begins(0, "--input-topics", "{first}", "--shift-by", "-2") == 3, "from the end, where nothing is committed"
    file = tmp_path / "offsets.csv"
    file.write_text(theirs.named("{first},0,99\n"))
    assert begins(0, "--input-topics", "{first}", "--from-file", str(file)) == 5
    code, said = called(tool, theirs, *ALL, "--from-file", str(file))
    assert (code, "NullPointerException" in said) == (1, True)
    with transaction(recovery) as producer:
        producer.produce(theirs.first, b"v", b"k", 0)
        producer.flush(30)
        assert begins(0, "--input-topics", "{first}", "--to-latest") == 6, "behind a record that is not committed yet"
        producer.abort_transaction(30)


@pytest.mark.deep
@pytest.mark.parametrize("option", ["--command-config", "--config-file"])
def test_a_file_of_client_settings_and_a_connection_lead_to_a_secured_broker(
    option: str, tool: ResetTool, secured: Secured, tmp_path: Path
) -> None:
    settings = tmp_path / "client.properties"
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    settings.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secured.authority.certificate}\n"
        f'sasl.jaas.config={login} username="{ADMIN}" password="{PASSWORDS[ADMIN]}";\n'
    )
    extra = secured.extra(ADMIN)
    with twin(extra, tmp_path / "theirs") as theirs, twin(extra, tmp_path / "ours") as ours:
        reset(tool, theirs, *ALL, "--to-offset", "2", option, str(settings))
        rebuild(ours, request_of(ours, "offset:2", tmp_path))
        compare(theirs, ours, {"app.in-0": (2, ""), "app.second-0": (2, ""), "app.second-1": (2, "")})


SUBSETS = {"first": ("{first}",), "second": ("{second}",), "both": ("{first}", "{second}")}
BEGUN = {
    "--to-earliest": "earliest",
    "--to-latest": "latest",
    "--to-offset 1": "offset:1",
    "--to-offset 99": "offset:99",
    "--shift-by 3": "shift:3",
}


@pytest.mark.deep
@pytest.mark.parametrize("topics", SUBSETS.values(), ids=SUBSETS)
@pytest.mark.parametrize("option", BEGUN)
def test_each_part_of_the_inputs_by_each_rule(
    option: str, topics: tuple[str, ...], tool: ResetTool, theirs: Twin, ours: Twin, tmp_path: Path
) -> None:
    reset(tool, theirs, "--input-topics", ",".join(topics), *option.split())
    rebuild(ours, request_of(ours, BEGUN[option], tmp_path, input_topics=topics))
    assert settled(theirs.internal_topics, BOTH_GONE) == settled(ours.internal_topics, BOTH_GONE) == BOTH_GONE
    gone = f"app{theirs.internal[1].removeprefix(theirs.id)}-0"
    expected = {tp: found for tp, found in theirs.offsets().items() if tp != gone}
    assert len(expected) == 3
    compare(theirs, ours, expected)
