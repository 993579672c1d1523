"""Every draft is a file that loads, whatever names the cluster has; a guess has a comment, and what nobody knows is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.application.found_process import by_command_line
from streams_recovery.config.reading import read
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.draft.configuration import configuration_name, draft, lacking
from streams_recovery.core.draft.questions import (
    COMMAND,
    GLOBALS,
    GUARANTEE,
    INPUTS,
    NAMESPACE,
    NONE,
    OUTPUTS,
    PORT,
    PROGRAM,
    RUNNING,
    RUNS,
    STATE,
    STORAGE,
    STORES,
    SURVIVE,
    URL,
    WORKLOAD,
    Question,
    Surroundings,
    next_question,
    questions,
)
from streams_recovery.core.draft.secret_words import SecretWords, masked_words
from streams_recovery.core.draft.seen import ApplicationSeen, FoundWorkload
from streams_recovery.core.draft.yaml_text import yaml_text
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.names import is_name
from streams_recovery.core.rollout.described import described
from streams_recovery.operations.draft import checked, of_process
from tests.support.examples.seen import DESCRIPTION, application

FAUST = ApplicationKind.FAUST
NOWHERE = Path("/nowhere/configs")
# What Kafka takes as a name, with what YAML reads as something else.
NAMES = st.one_of(
    st.sampled_from(["yes", "null", "1e3", "0x10", "on", "-", "--x", "a.b-c", ".", "..", "true", "_", "2026-01-01"]),
    st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True),
)
PLACE = Surroundings(name="orders", connection="kafka_default", home="/srv/streams")
FOUND = FoundWorkload(
    namespace="shop",
    workload="deployment/orders",
    container=None,
    port=8080,
    state_directory="/var/lib/state/x",
    because="its environment has APPLICATION_ID=orders",
)
BY_LABEL = replace(FOUND, because="its label app is orders", by_label=True)


def answered(seen: ApplicationSeen, place: Surroundings = PLACE, **given: Any) -> tuple[dict[str, Any], list[str]]:
    """All answers: those that are given, by keys with two underscores for a dot, else the default, else a text that fits."""
    answers = {key.replace("__", "."): value for key, value in given.items()}
    taken = []
    while (question := next_question(seen, answers, place)) is not None:
        fits = "in" if question.key == INPUTS else "deployment/x" if question.key.endswith("workload") else "x"
        answers[question.key] = question.value(fits if question.default is None else question.default)
        taken.append(question.key)
    return answers, taken


def loaded(seen: ApplicationSeen, place: Surroundings = PLACE, **given: Any) -> Any:
    answers, taken = answered(seen, place, **given)
    return checked(draft(seen, answers, place, taken).text, place.name, NOWHERE)


@given(
    NAMES.filter(is_name),
    st.sets(NAMES, max_size=5),
    st.sets(NAMES, max_size=4),
    st.sampled_from(["process", "process none", "command", "compose", "kubernetes", "kubernetes none"]),
    st.sampled_from(list(ApplicationKind)),
    st.sampled_from([None, *Guarantee]),
    st.sampled_from([(), (FOUND,), (BY_LABEL,), (FOUND, replace(FOUND, namespace="other"))]),
    st.booleans(),
)
def test_every_draft_loads(
    own: str,
    topics: set[str],
    stores: set[str],
    way: str,
    kind: ApplicationKind,
    guarantee: Guarantee | None,
    workloads: Any,
    is_described: bool,
) -> None:
    way, _, address = way.partition(" ")
    silent = {"runs__process__url" if way == "process" else "runs__kubernetes__port": address} if address else {}
    changelogs = [f"{own}-{store}-changelog" for store in stores]
    seen = application(own, "in", *topics, *changelogs, kind=kind, committed=(*topics, *changelogs))
    if kind is FAUST:
        # Nothing knows where Faust has its state in a pod.
        way, silent = ("command", {}) if way == "kubernetes" else (way, silent)
        guarantee = Guarantee.AT_LEAST_ONCE
    topology = described(DESCRIPTION.encode()) if is_described and kind is not FAUST else None
    seen = replace(
        seen,
        guarantee=guarantee,
        workloads=workloads,
        topology=topology,
        settings={one: {"cleanup.policy": "compact,delete"} for one in changelogs},
    )
    found = loaded(
        seen, Surroundings(name=configuration_name(own), connection="kafka_default", home="/srv/streams"), runs__kind=way, **silent
    )
    assert found.application.id == own
    assert set(seen.inputs) <= set(found.topics.inputs)
    assert set(seen.stores) == set(found.stores)


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**6), st.text(max_size=12), NAMES)
KEYS = st.one_of(NAMES, st.text(min_size=1, max_size=6)).filter(lambda key: "${" not in key)
DOCUMENTS = st.dictionaries(
    KEYS,
    st.recursive(PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)), max_leaves=8),
    max_size=4,
)


@given(DOCUMENTS, st.text(max_size=20))
def test_text_is_read_back_as_it_was(document: dict[str, Any], note: str) -> None:
    paths = {(key,) for key in document} | {(key, inner) for key, value in document.items() if isinstance(value, dict) for inner in value}
    text = yaml_text(document, dict.fromkeys(paths, note))
    assert read(text.encode() or b"{}", {}).data == document
    assert "\n\n" not in text


def test_a_variable_in_a_name_stays_what_it_is() -> None:
    document = {"a": ["${HOME}", "$${HOME}", "${", '"', "\\", "a: b", "# x", "\x07", "\u2028"]}
    assert read(yaml_text(document, {}).encode(), {"HOME": "/root"}).data == document


def test_a_guess_has_a_comment_and_a_fact_has_none() -> None:
    topics = ("in", "orders-totals-changelog", "orders-eu-x-changelog")
    seen = application(
        "orders", *topics, committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE, settings={topics[1]: {"cleanup.policy": "compact"}}
    )
    answers, taken = answered(seen, storage="/srv/savepoints", runs__kind="command", runs__command="/opt/orders/control")
    lines = draft(seen, answers, PLACE, taken).text.splitlines()
    commented = {line.split(":")[0].strip(): line.partition("   # ")[2] for line in lines if "   # " in line}
    assert commented == {
        "guarantee": "guessed: no transactional id of it is registered; one is kept for a week",
        "outputs": "nobody said what it writes: name it here",
        "stores": "perhaps also, by their names: eu-x",
        "totals": "guessed: its changelog is compacted, and nothing is deleted by age",
        "survive_cluster_loss": "the default: nobody was asked",
    }
    assert "  inputs: [in]" in lines


def test_what_is_not_known_is_asked_and_what_is_known_is_not() -> None:
    nothing = ApplicationSeen(application_id="orders", kind=ApplicationKind.KAFKA_STREAMS)
    asked = [one.key for one in questions(nothing, {RUNS: "process"}, PLACE)]
    assert asked == [
        GUARANTEE, INPUTS, RUNS, COMMAND, URL, STATE, "runs.pause", "topics.outputs", "topics.globals", STORAGE, SURVIVE,
    ]  # fmt: skip
    known = application(
        "orders",
        "in",
        "out",
        "rates",
        committed=("in",),
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        topology=described(DESCRIPTION.replace("extractor class: lambda", "topic: out").encode()),
    )
    assert [one.key for one in questions(replace(known, workloads=(FOUND,)), {RUNS: "kubernetes"}, PLACE)] == [
        RUNS, "runs.pause", STORAGE, SURVIVE,
    ]  # fmt: skip


def test_a_workload_that_only_a_label_tells_is_named_by_a_person() -> None:
    seen = application("orders", "in", committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE, workloads=(BY_LABEL,))
    way = next(one for one in questions(seen, {}, PLACE) if one.key == RUNS)
    assert (way.default, way.safe) == ("command", False)
    open_ones = {one.key: (one.default, one.safe) for one in questions(seen, {RUNS: "kubernetes"}, PLACE)}
    assert (open_ones[NAMESPACE], open_ones[WORKLOAD]) == (("shop", False), ("deployment/orders", False))
    assert PORT in open_ones
    named = {NAMESPACE: "shop", WORKLOAD: "deployment/orders"}
    assert PORT not in {one.key for one in questions(seen, {RUNS: "kubernetes", **named}, PLACE)}
    given = {key.replace(".", "__"): value for key, value in named.items()}
    runs = loaded(seen, runs__kind="kubernetes", **given).runs.kubernetes
    assert (runs.namespace, runs.workload, runs.port) == ("shop", "deployment/orders", 8080)
    another = loaded(seen, runs__kind="kubernetes", **{**given, "runs__kubernetes__workload": "deployment/b"}, runs__kubernetes__port="9")
    assert (another.runs.kubernetes.workload, another.runs.kubernetes.port) == ("deployment/b", 9)


def test_the_context_that_was_looked_in_is_written() -> None:
    seen = application("orders", "in", committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE, workloads=(FOUND,))
    place = replace(PLACE, kubeconfig="/home/x/.kube/config", context="prod")
    found = loaded(seen, place, runs__kind="kubernetes").runs.kubernetes
    assert (found.kubeconfig, found.context) == ("/home/x/.kube/config", "prod")
    assert loaded(seen, replace(place, context=None), runs__kind="kubernetes").runs.kubernetes.context is None


def test_what_has_no_endpoints_is_drafted_without() -> None:
    seen = application("orders", "in", committed=("in",), guarantee=Guarantee.EXACTLY_ONCE_V2)
    answers, taken = answered(seen, runs__kind="process", runs__process__url=NONE)
    text = draft(seen, answers, PLACE, taken).text
    found = checked(text, PLACE.name, NOWHERE)
    assert found.runs.process.instances[0].url is None
    assert "runs.pause" not in answers
    assert found.backup.consistency.fallback == "stop"
    answers, taken = answered(seen, runs__kind="kubernetes", runs__kubernetes__port=NONE)
    text = draft(seen, answers, PLACE, taken).text
    assert checked(text, PLACE.name, NOWHERE).runs.kubernetes.port is None
    assert "control" not in text
    assert "runs.pause" not in answers


def test_a_question_has_one_sentence_why_and_says_what_to_give_where_nobody_is_there() -> None:
    seen = application(
        "orders", "orders-a-b-changelog", "orders-w-changelog", settings={"orders-w-changelog": {"cleanup.policy": "compact,delete"}}
    )
    ways = ("process", "command", "compose", "kubernetes")
    found = {one.key: one for way in ways for one in questions(seen, {RUNS: way}, PLACE)}
    assert {STORES, "stores.w.kind", PROGRAM, STATE} < set(found)
    for one in found.values():
        assert one.why.endswith(".")
        assert one.why.count(". ") == 0
        assert one.text.endswith("?") or "?" in one.text
        assert f"--answer {one.key}=VALUE" in one.missing.next_step


@pytest.mark.parametrize(
    ("question", "given", "value"),
    [
        ("runs.kind", "process", "process"),
        ("topics.outputs", "a, b c", ["a", "b", "c"]),
        ("topics.outputs", None, []),
        ("topics.outputs", ["a"], ["a"]),
        (SURVIVE, "no", False),
        (SURVIVE, True, True),
        (COMMAND, "java -jar 'my app.jar'", ["java", "-jar", "my app.jar"]),
    ],
)
def test_an_answer_is_data(question: str, given: Any, value: Any) -> None:
    assert ask(question).value(given) == value


@pytest.mark.parametrize(
    ("question", "given"), [("runs.kind", "docker"), (SURVIVE, "perhaps"), (COMMAND, "java 'x"), (STORAGE, " "), (STORAGE, None)]
)
def test_an_answer_that_is_none_is_refused(question: str, given: Any) -> None:
    with pytest.raises(ConfigInvalid, match=question):
        ask(question).value(given)


def ask(key: str) -> Question:
    seen = ApplicationSeen(application_id="orders", kind=ApplicationKind.KAFKA_STREAMS)
    return next(one for one in questions(seen, {RUNS: "process"}, PLACE) if one.key == key)


def test_keys_that_are_given_lie_over_what_was_seen() -> None:
    seen = application("orders", "in", committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE)
    found = loaded(seen, storage="s3://bucket/deep/prefix", application__commit_interval_ms=500, application__guarantee="exactly_once_v2")
    assert (found.application.commit_interval_ms, found.application.guarantee) == (500, Guarantee.EXACTLY_ONCE_V2)
    assert (found.storage.backend, found.storage.bucket, found.storage.prefix) == ("s3", "bucket", "deep/prefix")
    with pytest.raises(ConfigInvalid, match=r"unknown key application\.comit"):
        loaded(seen, application__comit=1)


def test_an_answer_that_was_not_offered_is_refused() -> None:
    seen = application("orders", "in", "orders-a-b-changelog", committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE)
    assert set(loaded(seen, stores="a-b").stores) == {"a-b"}
    with pytest.raises(ConfigInvalid, match="c-d is none of a-b"):
        loaded(seen, stores="c-d")
    with pytest.raises(ConfigInvalid, match="ftp:// is no address"):
        loaded(seen, storage="ftp://x/y")


def test_what_a_file_lacks_is_said_with_the_line_to_write() -> None:
    topics = ("in", "late", "out", "rates", "orders-totals-changelog", "orders-a-b-changelog")
    seen = application(
        "orders",
        *topics,
        committed=("in", "late"),
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        settings={topics[4]: {"cleanup.policy": "compact"}},
    )
    declared: dict[str, tuple[str, ...]] = {"inputs": ("in",), "outputs": (), "globals": (), "stores": ()}
    assert list(lacking(seen, declared, Guarantee.AT_LEAST_ONCE)) == [
        "topics.inputs lacks late, its group has committed offsets there: inputs: [in, late]",
        "stores lacks totals, whose changelog orders-totals-changelog is there: totals: {kind: key-value}",
        "stores may lack a-b: only the names of their changelogs say so; name them there, or their topics in topics.foreign",
        "application.guarantee is at_least_once, and it has transactional ids: guarantee: exactly_once_v2",
    ]
    told = replace(seen, topology=described(DESCRIPTION.encode()), described_by="GET /topology")
    assert [one.partition(":")[0] for one in lacking(told, declared, Guarantee.EXACTLY_ONCE_V2)][:3] == [
        "topics.inputs lacks late, by its offsets, or by GET /topology",
        "topics.outputs lacks out, by GET /topology",
        "topics.globals lacks rates, by GET /topology",
    ]
    whole = {"inputs": ("in", "late"), "outputs": ("out",), "globals": ("rates",), "stores": ("totals", "a-b")}
    assert list(lacking(told, whole, Guarantee.EXACTLY_ONCE_V2)) == []


@pytest.mark.parametrize(
    ("place", "answer", "expected"),
    [
        (PLACE, [NONE], None),
        (PLACE, ["java", "-jar", "orders.jar"], ("java", "-jar", "orders.jar")),
        (replace(PLACE, connected=17, connected_as="java Main"), [NONE], None),
    ],
)
def test_a_process_that_nobody_can_ask_is_found_by_its_command_line(place: Surroundings, answer: list[str], expected: object) -> None:
    seen = application("orders", "in", committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE)
    answers = {RUNS: "process", COMMAND: ["run"], URL: NONE, STATE: "/srv/state", OUTPUTS: [], GLOBALS: [], STORAGE: "/srv/savepoints"}
    open_one = next_question(seen, answers, place)
    assert open_one is not None
    assert (open_one.key, open_one.default, open_one.safe) == (RUNNING, str(place.connected or NONE), place.connected is None)
    written = draft(seen, {**answers, RUNNING: answer, SURVIVE: True}, place).text
    assert checked(written, PLACE.name, NOWHERE).runs.process.running_as == expected
    assert ("(17 is java Main)" in open_one.text) == (place.connected is not None)
    assert RUNNING not in [one.key for one in questions(seen, {**answers, URL: "http://127.0.0.1:8080"}, place)]


# Words that a person may start an application with, and what of them no file may have.
CANARY = "s3cr3t/ö\\"
SAID: list[list[str]] = [
    ["java", f"--sasl.password={CANARY}"],
    ["java", f"-Djavax.net.ssl.keyStorePassword={CANARY}", "-jar", "a.jar"],
    ["run", "--api-key", CANARY, "--verbose"],
    ["env", f"DB_PASSWORD={CANARY}", "run"],
    ["java", f'-Dsasl.jaas.config=x.PlainLoginModule required username="me" password="{CANARY} and more";'],
    ["run", f"postgresql://me:{CANARY.replace('/', '-')}@db:5432/x?a=${{b}}"],
    ["run", json.dumps({"token": CANARY, "user": "me"}, ensure_ascii=False)],
    ["run", f"--token={CANARY}", f"--secret={CANARY}", "--password=another"],
]
HARMLESS = ["run", "--password-file=/etc/x", "--max-tokens=100", "--token", "--verbose", "http://db:5432/a@b", "${HOME}", "--key=orders"]


@pytest.mark.parametrize("argv", SAID)
def test_a_secret_of_a_command_line_is_a_variable_of_the_file(argv: list[str]) -> None:
    seen = application("orders", "in", committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE)
    answers = {RUNS: "process", COMMAND: argv, URL: NONE, STATE: "/srv/state", OUTPUTS: [], GLOBALS: [], STORAGE: "/srv/savepoints"}
    made = draft(seen, {**answers, RUNNING: argv, SURVIVE: True}, replace(PLACE, name="4-orders"))
    assert "s3cr3t" not in made.text
    assert "s3cr3t" not in repr(made).replace(repr(made.document), "")
    assert "s3cr3t" not in " ".join(masked_words(argv))
    assert set(made.variables) <= {"_4_ORDERS_SECRET", "_4_ORDERS_SECRET_2"}
    # Who sets them has the same command line.
    found = checked(made.text, "4-orders", NOWHERE, made.variables).runs.process
    assert (list(found.command), list(found.running_as)) == (argv, argv)
    # None was set yet.
    with pytest.raises(ConfigInvalid, match="_4_ORDERS_SECRET is not set"):
        checked(made.text, "4-orders", NOWHERE)


def test_what_is_no_secret_stays_as_it_is() -> None:
    words = SecretWords("orders")
    assert (words.without(HARMLESS), words.variables, masked_words(HARMLESS)) == (HARMLESS, {}, HARMLESS)


def test_a_variable_of_an_environment_that_is_called_like_a_secret_is_one() -> None:
    words = SecretWords("orders")
    assert words.without({"environment": {"DB_PASSWORD": "x y", "DB_USER": "me"}}) == {
        "environment": {"DB_PASSWORD": "${ORDERS_SECRET}", "DB_USER": "me"}
    }
    assert words.variables == {"ORDERS_SECRET": "x y"}


def test_a_process_is_found_by_the_file_that_has_a_variable_in_place_of_its_password() -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(60)", "--password=s3cr3t"]
    with subprocess.Popen(argv, start_new_session=True) as process:
        try:
            seen = application("orders", "in", committed=("in",), guarantee=Guarantee.AT_LEAST_ONCE)
            answers = {
                RUNS: "process",
                COMMAND: ["run"],
                URL: NONE,
                STATE: "/srv/state",
                OUTPUTS: [],
                GLOBALS: [],
                STORAGE: "/srv/savepoints",
            }
            made = draft(seen, {**answers, **of_process([str(process.pid)]), SURVIVE: True}, PLACE)
            assert "s3cr3t" not in made.text
            written = checked(made.text, PLACE.name, NOWHERE, made.variables).runs.process.running_as
            found = by_command_line(written)
            assert found.process is not None, found.doubt
            assert found.process.pid == process.pid
        finally:
            process.kill()
