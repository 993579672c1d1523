"""Which rights a run needs, and what is said of those that it lacks."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity, required
from streams_recovery.core.preflight.permissions import (
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    WRITE,
    Answer,
    RequiredAcl,
    ResourceKind,
    Rights,
    TopicInUse,
    acl_text,
    backup_needs,
    least,
    missing,
    restore_needs,
)
from streams_recovery.core.remedies.remedy import as_refused

ALL = frozenset({ALTER_CONFIGS, CREATE, DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ, WRITE})
TOPICS = (
    TopicInUse(name="in", role=TopicRole.INPUT, archived=False, compacted=False),
    TopicInUse(name="table", role=TopicRole.GLOBAL, archived=True, compacted=True),
    TopicInUse(name="app-a-changelog", role=TopicRole.CHANGELOG, archived=True, compacted=True),
    TopicInUse(name="app-b-changelog", role=TopicRole.CHANGELOG, archived=True, compacted=True),
    TopicInUse(name="app-c-repartition", role=TopicRole.REPARTITION, archived=True, compacted=False),
)
NEEDS = {
    "backup": backup_needs("app", TOPICS, stops=True, transactional=True),
    "restore": restore_needs("app", [replace(topic, made=topic.role.internal) for topic in TOPICS], transactional=True),
}


def rights(
    topics: dict[str, Answer] | None = None,
    *,
    group: Answer = ALL,
    cluster: Answer = ALL,
    readable: bool = True,
    ids: bool = True,
) -> Rights:
    return Rights(
        principal="User:me",
        bootstrap_servers="a:1,b:2",
        topics={topic.name: ALL for topic in TOPICS} if topics is None else topics,
        group=group,
        cluster=cluster,
        cluster_readable=readable,
        transactional_ids=ids,
    )


@pytest.mark.parametrize("purpose", NEEDS)
def test_who_may_do_everything_lacks_nothing(purpose: str) -> None:
    assert missing(NEEDS[purpose], rights()) == ()


@pytest.mark.fault("F57")
@pytest.mark.parametrize("purpose", NEEDS)
def test_who_may_do_nothing_is_told_everything_at_once(purpose: str) -> None:
    nothing = rights({}, group=frozenset(), cluster=frozenset({DESCRIBE}), readable=False, ids=False)
    found = missing(NEEDS[purpose], nothing)
    assert {finding.kind for finding in found} == {"acl"}
    text = "\n".join(map(str, found))
    for need in NEEDS[purpose]:
        for operation in least(need.operations):
            assert f"--operation {acl_text(operation)}" in text
        assert need.name in text
    assert all(finding.is_command for finding in found)
    granted = " ".join(finding.next_step for finding in found)
    for resource in ("--topic in", "--topic table", "--topic app- ", "--group app", "--cluster", "--transactional-id app-"):
        assert resource in granted


@given(st.data())
def test_what_is_told_is_what_lacks_and_nothing_else(data: st.DataObject) -> None:
    need = data.draw(st.sampled_from([need for need in NEEDS["restore"] if need.kind is ResourceKind.TOPIC]))
    allowed = data.draw(st.frozensets(st.sampled_from(sorted(ALL))))
    found = missing([need], rights({need.name: allowed}, cluster=frozenset({DESCRIBE})))
    lacking = need.operations - allowed
    assert bool(found) == bool(lacking)
    for finding in found:
        argv = shlex.split(finding.next_step)
        assert {argv[at + 1] for at, part in enumerate(argv) if part == "--operation"} == {
            acl_text(operation) for operation in least(lacking)
        }


def test_a_right_to_create_on_the_whole_cluster_counts() -> None:
    need = next(need for need in NEEDS["restore"] if CREATE in need.operations)
    allowed = rights({need.name: ALL - {CREATE}}, cluster=frozenset({CREATE}))
    assert missing([need], allowed) == ()
    assert missing([need], rights({need.name: ALL - {CREATE}}, cluster=frozenset())) != ()


def test_internal_topics_get_one_command_by_their_prefix_and_others_one_by_name() -> None:
    found = missing(NEEDS["backup"], rights({"in": ALL, "table": ALL}))
    (only,) = found
    assert only.next_step == (
        "kafka-acls.sh --bootstrap-server a:1,b:2 --command-config admin.properties --add --allow-principal User:me "
        "--operation AlterConfigs --operation Read --topic app- --resource-pattern-type prefixed"
    )
    assert "app-a-changelog, app-b-changelog, app-c-repartition" in only.text


def test_where_another_application_s_id_begins_so_nothing_but_looking_is_granted_by_a_prefix() -> None:
    asked = {
        "backup": backup_needs("app", TOPICS, stops=True, transactional=True, shared=True),
        "restore": restore_needs("app", [replace(topic, made=topic.role.internal) for topic in TOPICS], transactional=True, shared=True),
    }
    nothing = rights({}, group=frozenset(), cluster=frozenset(), readable=False, ids=False)
    for needs in asked.values():
        commands = [shlex.split(found.next_step) for found in missing(needs, nothing)]
        prefixed = [words for words in commands if "prefixed" in words]
        assert [words[words.index("--operation") :] for words in prefixed] == [
            ["--operation", "Describe", "--transactional-id", "app-", "--resource-pattern-type", "prefixed"]
        ]
        named = {words[at + 1] for words in commands for at, word in enumerate(words) if word == "--topic"}
        assert named == {topic.name for topic in TOPICS}


@pytest.mark.remedy("right-to-see-groups")
def test_no_command_gives_more_than_looking_by_a_prefix_to_a_user_who_does_not_see_all_groups() -> None:
    lacking: dict[str, Answer] = {"in": ALL, "table": ALL}
    blind, seeing = rights(lacking, cluster=ALL - {DESCRIBE}), rights(lacking)
    changing = {"in": ALL, "table": ALL, "app-a-changelog": ALL - {READ}, "app-b-changelog": ALL - {WRITE}, "app-c-repartition": ALL}
    for needs in NEEDS.values():
        for unseen in (blind, rights(changing, cluster=ALL - {DESCRIBE})):
            found = missing(needs, unseen)
            assert found
            assert not [one for one in found if "prefixed" in one.next_step]
            assert {one.next_step.partition("--operation ")[2] for one in found} == {"Describe --cluster"}
    said = "A prefix is safe where no other application's id begins so, which nobody sees without Describe on the cluster"
    (told,) = [one for one in missing(NEEDS["backup"], blind) if one.severity is PreflightSeverity.BLOCKING]
    assert "lacks AlterConfigs, Read on topic app-a-changelog" in told.text
    assert said in told.text
    # Once they are seen, the prefix is granted.
    (granted,) = missing(NEEDS["backup"], seeing)
    assert "--topic app- --resource-pattern-type prefixed" in granted.next_step
    assert said not in granted.text
    # To look does no harm, whosever the topics are.
    looking: dict[str, Answer] = {**lacking, **dict.fromkeys(("app-a-changelog", "app-b-changelog", "app-c-repartition"), ALL)}
    (transactions,) = [
        one for one in missing(NEEDS["restore"], rights(looking, cluster=ALL - {DESCRIBE}, ids=False)) if "prefixed" in one.next_step
    ]
    assert "--operation Describe --transactional-id app-" in transactions.next_step


def test_a_command_that_several_findings_need_is_told_once() -> None:
    blind = rights({"in": ALL, "table": ALL}, cluster=ALL - {DESCRIBE})
    twice = [one for one in missing(NEEDS["backup"], blind) if one.severity is PreflightSeverity.BLOCKING] * 2
    with pytest.raises(Refused) as caught:
        required(twice, "a savepoint")
    assert len(caught.value.commands) == 1


def test_an_exact_savepoint_does_not_ask_for_what_it_does_not_use() -> None:
    inputs = {need.name: need.operations for need in NEEDS["backup"] if need.name in ("in", "app-c-repartition")}
    assert inputs == {"in": {DESCRIBE, DESCRIBE_CONFIGS}, "app-c-repartition": {DESCRIBE, DESCRIBE_CONFIGS, READ}}
    paused = backup_needs("app", TOPICS, stops=False, transactional=True)
    assert [need.operations for need in paused if need.kind is ResourceKind.GROUP] == [{DESCRIBE}]
    assert not [need for need in paused if need.kind is ResourceKind.TRANSACTIONAL_ID]
    assert not [need for need in backup_needs("app", TOPICS, stops=True, transactional=False) if need.kind is ResourceKind.TRANSACTIONAL_ID]


def test_not_seeing_other_groups_warns_and_does_not_block() -> None:
    (only,) = missing(NEEDS["backup"], rights(cluster=frozenset()))
    assert only.severity is PreflightSeverity.WARNING
    assert "owns topics that look like this application's" in only.text
    (blocking,) = missing(NEEDS["backup"], rights(cluster=frozenset({DESCRIBE}), readable=False))
    assert blocking.severity is PreflightSeverity.BLOCKING
    assert blocking.next_step.endswith("--operation DescribeConfigs --cluster")


@pytest.mark.remedy("right-unknown")
def test_rights_a_cluster_keeps_to_itself_are_no_finding_and_no_all_clear() -> None:
    (only,) = missing(NEEDS["backup"], rights(group=None))
    assert only.severity is PreflightSeverity.WARNING
    assert "does not tell what User:me may do with group app" in only.text


def test_names_are_quoted_for_a_shell() -> None:
    owner = Rights(
        principal="User:CN=a b,O=x; rm -rf /",
        bootstrap_servers="a:1",
        topics={},
        group=None,
        cluster=None,
        cluster_readable=True,
        transactional_ids=True,
    )
    (found,) = missing([RequiredAcl(kind=ResourceKind.TOPIC, name="t", operations=frozenset({READ}), why="to read", advised="t")], owner)
    assert shlex.split(found.next_step)[7] == "User:CN=a b,O=x; rm -rf /"


def test_required_names_all_that_blocks_and_returns_what_does_not() -> None:
    def finding(severity: PreflightSeverity, text: str) -> PreflightFinding:
        return PreflightFinding(severity=severity, kind="acl", text=text, remedy=as_refused(f"do {text}"))

    warnings = [finding(PreflightSeverity.WARNING, "w1"), finding(PreflightSeverity.WARNING, "w2")]
    assert required(warnings, "a savepoint") == ("w1: do w1", "w2: do w2")
    blocking = [
        finding(PreflightSeverity.BLOCKING, "b1"),
        replace(finding(PreflightSeverity.BLOCKING, "b2"), remedy=replace(as_refused("try b2"), commands=("do b2",))),
    ]
    with pytest.raises(Refused, match="cannot begin") as caught:
        required([*warnings, *blocking], "a savepoint", look_again=("look",))
    assert caught.value.facts["findings"] == ["b1: do b1", "b2: do b2"]
    assert caught.value.commands == ("do b2", "look")
    assert ("do b1" in caught.value.reason, "do b2" in caught.value.reason, "b2" in caught.value.reason) == (True, False, True)


def test_what_is_implied_is_not_granted_on_top() -> None:
    assert least(frozenset({READ, WRITE, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS})) == {READ, WRITE, ALTER_CONFIGS}
    assert least(frozenset({CREATE, DESCRIBE})) == {CREATE, DESCRIBE}


def test_a_need_says_what_it_is_for() -> None:
    for needs in NEEDS.values():
        assert all(isinstance(need, RequiredAcl) and need.why.startswith("to ") for need in needs)
