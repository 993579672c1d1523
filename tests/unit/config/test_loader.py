"""A configuration is understood whole, or refused with the place and the way to mend it.

What an installed package does is in tests/unit/test_wheel.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from streams_recovery.config.contradictions import neighbours
from streams_recovery.config.loader import load, load_all, load_named
from streams_recovery.config.schema import application_schema, rendered
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.kafka_types import Guarantee, QuiesceMode, StoreKind
from streams_recovery.core.project_files import config_directory
from streams_recovery.core.repository.layout import place_in
from tests.support.examples.configurations import APPLICATION, DRILL, MINIMAL, refused, written
from tests.support.project import PROJECT

CONFIGS = PROJECT / "include" / "configs"


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_defaults_fill_what_is_not_written(tmp_path: Path) -> None:
    config = load(written(tmp_path, MINIMAL), {})
    assert config.name == "orders"
    assert config.application.guarantee is Guarantee.EXACTLY_ONCE_V2
    assert config.application.commit_interval_seconds == 0.1
    assert config.quiesce_mode is QuiesceMode.PAUSE
    assert config.storage.location.path == str(tmp_path / "repository")
    assert config.store_kind("anything") is None


def test_at_least_once_commits_every_thirty_seconds_unless_told_otherwise(tmp_path: Path) -> None:
    text = MINIMAL.replace("exactly_once_v2", "at_least_once")
    assert load(written(tmp_path, text), {}).application.commit_interval_seconds == 30
    text = text.replace("at_least_once", "at_least_once\n  commit_interval_ms: 200")
    assert load(written(tmp_path, text), {}).application.commit_interval_seconds == 0.2


@pytest.mark.fault("F59")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  inputs:", "  imputs:", "unknown key topics.imputs; did you mean inputs? If not, leave it out"),
        ("topics:", "backup.consistency.mode: stop\ntopics:", "each dot is a level: write backup: {consistency: {mode: ...}}"),
        # Keys that there were once: each has only the value that was its default.
        ("topics:", "monitor: {limits: {changelog_growth: 1}}\ntopics:", "unknown key monitor.limits.changelog_growth; did you mean "),
        (
            "topics:",
            "restore: {sampled_keys: 7}\ntopics:",
            "unknown key restore.sampled_keys; leave it out, or write one of consumer_group_strategy, ",
        ),
        (
            "topics:",
            "dags: {without: [every night]}\ntopics:",
            "dags.without.0: should be 'every day', 'ways back', 'trying things', 'looking' or 'upkeep'",
        ),
        ("version: 1", "version: 1\ncompression_level: 3", "unknown key compression_level; it belongs to backup"),
        ("guarantee: exactly_once_v2", "guarantee: exactly_onse", "application.guarantee"),
        ("version: 1", "version: 2", "version"),
        ("backend: filesystem", "backend: floppy", "storage.backend"),
        ("name: one", "name: one, colour: red", "unknown key runs.process.instances.0.colour"),
        ("id: orders", "id: -orders", "application.id"),
        ("id: orders", 'id: "$(id)"', "application.id"),
        ("[orders-in]", "[../../x]", "topics.inputs.0"),
        ("[orders-in]", "[orders-store-changelog]", "orders-store-changelog is an internal topic"),
        ("[orders-in]", "[]", "topics: neither inputs nor input_patterns"),
        ("[orders-in]", "[orders-in]\n  globals: [orders-in]", "orders-in is in inputs and in globals"),
        ("[orders-in]", "orders-in", "topics.inputs: should be a list, such as [orders]"),
        ("[orders-in]", "{a: b}", "topics.inputs: should be a list, such as [orders]"),
        ("[orders-in]", '["orders-.*"]', "a pattern belongs into topics.input_patterns"),
        ("  inputs: [orders-in]", "  - orders-in", "topics: should have keys below it"),
        ("backend: filesystem", "backend: s3", "bucket is needed"),
        ("backend: filesystem", "backend: s3\n  bucket: mine/some/where", "write bucket: mine and prefix: some/where"),
        ("backend: filesystem", "backend: s3\n  bucket: gs://mine/some/where", "address of backend gcs, and backend is s3"),
        ("backend: filesystem", "backend: s3\n  bucket: s3://mine/some\n  prefix: other", "address of prefix some, and prefix is other"),
        ("backend: filesystem", "backend: s3\n  bucket: ftp://mine/some", "they begin with s3://, gs://, az://"),
        ("backend: filesystem", "backend: s3\n  bucket: s3://user@mine/some", "no user"),
        (
            "backend: filesystem",
            "backend: azure\n  bucket: https://one.blob.core.windows.net/c?sv=1&sig=secret",
            "keys belong into a connection",
        ),
        ("backend: filesystem", "backend: azure\n  bucket: mine", "account is needed"),
        ("backend: filesystem", "backend: gcs\n  bucket: mine\n  sse: AES256", "sse is a header of S3"),
        ("backend: filesystem", "backend: gcs\n  bucket: mine\n  endpoint: http://127.0.0.1:1", "not encrypted"),
        ("backend: filesystem", "backend: s3\n  bucket: mine/", "write bucket: mine"),
        ("kind: process", "kind: command", "the section command is needed"),
        (
            "id: orders",
            "id: 017",
            "application.id: should be text; a number or a word such as yes, no, on, off, true, false or null needs quotes",
        ),
        ("version: 1", "version: true", "version: expected a whole number, found True"),
        ("topics:", "monitor: {limits: {disk_free: no}}\ntopics:", "monitor.limits.disk_free: expected a number, found False"),
        ("http://127.0.0.1:18081", "http://user:canary@127.0.0.1:18081", "must not carry a user name"),
        ("http://127.0.0.1:18081", "ftp://user:canary@127.0.0.1:99999", "must not carry a user name"),
        ("http://127.0.0.1:18081", "file:///etc/passwd", "not an http or https address"),
        ("http://127.0.0.1:18081", "http://orders.example.com:18081", "http://orders.example.com:18081 is plain http to another machine"),
        ("http://127.0.0.1:18081", "http://127.0.0.1:99999", "not an http or https address"),
        ("guarantee: exactly_once_v2", "guarantee: exactly_once_v2\n  session_timeout_ms: true", "expected a whole number"),
        ("guarantee: exactly_once_v2", "guarantee: exactly_once_v2\n  session_timeout_ms: soon", "expected a whole number"),
        ("topics:", "restore: {time_window_end: 2026-11-21T01:00:00}\ntopics:", "restore.time_window_end"),
        ("topics:", "check: {level: sample=0%}\ntopics:", "check.level: 'sample=0%' is no level"),
        ("topics:", 'compact: {schedule: "0 0 31 2 *"}\ntopics:', "compact.schedule: '0 0 31 2 *' is a day that never comes"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = MINIMAL.replace(old, new, 1)
    message = refused(tmp_path, text)
    assert said in message
    assert re.search(r"orders\.yaml:\d+: ", message)
    assert "canary" not in message


def test_the_line_is_that_of_the_key(tmp_path: Path) -> None:
    text = MINIMAL.replace("  path: repository", "  path: repository\n  pathh: x")
    assert f"orders.yaml:{line_of(text, 'pathh')}: unknown key storage.pathh" in refused(tmp_path, text)


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    message = refused(tmp_path, MINIMAL.replace("version: 1", "versoin: 1").replace("id: orders", "id: ''"))
    assert "unknown key versoin" in message
    assert "version is missing" in message
    assert "application.id" in message


@pytest.mark.fault("F59")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\nversion: 1\n", "the key 'version' is there twice, first in line 1"),
        ("version: !!python/object:os.system {}\n", "tag"),
        ("version: !!int 1\n", "tag"),
        ("a: &a [1]\nb: *a\n", "anchors and aliases"),
        ("backup:\n  schedule: * * * * *\n", "quotes"),
        ('backup:\n  schedule: "every hour"\n', "is not a cron expression"),
        ("backup:\n  schedule: @hourly\n", "put the value in quotes"),
        ("version: 1\nbackup:\n\tschedule: x\n", "spaces"),
        ("version: 1\n---\nversion: 1\n", "one file describes one application"),
        ("- a\n- b\n", "holds no keys"),
        ("", "holds no keys"),
        ("version: [1\n", "orders.yaml"),
        ("[a]: b\n", "a key must be text"),
        ("a: " + "[" * 50 + "]" * 50 + "\n", "nested too deeply"),
        ("a: " + "x" * 300_000 + "\n", "are allowed"),
        ("version: 1\nname: other\n", "the file is called orders.yaml"),
        ("version: ${NOT_SET}\n", "orders.yaml:1: the environment variable NOT_SET is not set"),
    ],
)
def test_yaml_that_is_more_or_less_than_plain_data_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_a_name_that_airflow_could_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="has 101:") as caught:
        load(written(tmp_path, MINIMAL, f"{'x' * 101}.yaml"), {})
    assert str(caught.value.facts["file"]).endswith(f"{'x' * 101}.yaml")
    assert load(written(tmp_path, MINIMAL, f"{'x' * 100}.yaml"), {}).name == "x" * 100


def test_a_list_whose_only_entry_is_wrong_is_not_called_too_short(tmp_path: Path) -> None:
    told = refused(tmp_path, MINIMAL.replace("http://127.0.0.1:18081", "orders"))
    assert "runs.process.instances.0.url: 'orders' is not an http or https address" in told
    assert "at least" not in told
    begin = MINIMAL.index("      - {name: one")
    assert "runs.process.instances: should have an entry" in refused(tmp_path, MINIMAL[:begin].replace("instances:", "instances: []"))


@pytest.mark.fault("F59")
def test_a_pipe_among_the_files_lets_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "broken.yaml")
    assert "it is no regular file" in loaded_beside(tmp_path, {})["broken"]


@pytest.mark.fault("F59")
def test_an_alias_bomb_costs_nothing(tmp_path: Path) -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))
    assert "anchors and aliases" in refused(tmp_path, "l0: &l0 [x]\n" + levels)


def test_variables_become_numbers_switches_and_nothing(tmp_path: Path) -> None:
    text = MINIMAL.replace(
        "  path: repository",
        "  path: ${DIR}/repository\n  allow_http: ${HTTP:-true}\n  endpoint: ${ENDPOINT:-}\n  bucket: ${BUCKET}",
    ).replace("guarantee:", "session_timeout_ms: ${SESSION:-7000}\n  guarantee:")
    config = load(written(tmp_path, text), {"DIR": str(tmp_path), "BUCKET": "2026"})
    assert config.application.session_timeout_ms == 7_000
    assert config.storage.allow_http is True
    assert config.storage.endpoint is None
    assert config.storage.bucket == "2026"
    assert config.storage.path == str(tmp_path / "repository")


@pytest.mark.fault("F59")
@pytest.mark.parametrize("written_as", ["3.10", "010", "1_000", "1.5e+3", "+5", "-0", ".5", "0.00001", "9" * 5_000])
def test_numbers_reach_programs_as_they_are_written(tmp_path: Path, written_as: str) -> None:
    text = MINIMAL.replace("Orders.java]", f"{written_as}]\n    environment: {{V: {written_as}}}")
    text = text.replace("guarantee:", f"streams_config: {{some.setting: {written_as}}}\n  guarantee:")
    config = load(written(tmp_path, text), {})
    assert config.runs.process is not None
    assert config.runs.process.command == ("java", written_as)
    assert config.runs.process.environment == {"V": written_as}
    assert config.application.streams_config == {"some.setting": written_as}


@pytest.mark.fault("F59")
def test_editors_take_what_the_loader_takes(tmp_path: Path) -> None:
    text = MINIMAL.replace("Orders.java]", "8080]\n    environment: {PORT: 8080, SHARE: 0.5}").replace(
        "version: 1", 'version: "${VERSION:-1}"'
    )
    text += 'restore: {time_window_end: "2026-11-21T12:00:00 Europe/Vienna"}\n'
    load(written(tmp_path, text), {})
    jsonschema.validate(yaml.safe_load(text), application_schema(), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def test_what_a_variable_contains_cannot_add_keys(tmp_path: Path) -> None:
    text = MINIMAL.replace("id: orders", "id: ${ID}")
    assert "application.id" in refused(tmp_path, text, {"ID": "orders\n  guarantee: at_least_once"})


def test_unencrypted_object_stores_need_a_word(tmp_path: Path) -> None:
    s3 = "backend: s3\n  bucket: b\n  endpoint: http://s3:7070\n  path: repository"
    text = MINIMAL.replace("backend: filesystem\n  path: repository", s3)
    assert "allow_http" in refused(tmp_path, text)
    location = load(written(tmp_path, text.replace("  path:", "  allow_http: true\n  prefix: /a/b/\n  path:")), {}).storage.location
    assert (location.bucket, location.prefix, location.path) == ("b", "a/b", None)
    encrypted = text.replace("  path:", "  allow_http: true\n  sse: aws:kms\n  kms_key_id: a-key\n  path:")
    location = load(written(tmp_path, encrypted), {}).storage.location
    assert (location.sse, location.kms_key_id) == ("aws:kms", "a-key")
    assert "kms_key_id is used by sse: aws:kms only" in refused(tmp_path, encrypted.replace("aws:kms", "AES256"))
    assert "sse" in refused(tmp_path, encrypted.replace("aws:kms", "rot13"))


@pytest.mark.parametrize(
    ("written_as", "is_place"),
    [
        ("s3\n  bucket: s3://mine/some/where/", "s3://mine/some/where"),
        ("s3\n  bucket: s3://mine", "s3://mine"),
        ("gcs\n  bucket: gs://mine/some/where", "gs://mine/some/where"),
        ("azure\n  account: acme\n  bucket: az://states/some", "https://acme.blob.core.windows.net/states/some"),
        ("azure\n  bucket: https://acme.blob.core.windows.net/states/some/where", "https://acme.blob.core.windows.net/states/some/where"),
        (
            "azure\n  bucket: https://acme.blob.core.windows.net/states\n  account: acme\n  prefix: some",
            "https://acme.blob.core.windows.net/states/some",
        ),
        # An account of this name in the public cloud may be anybody's.
        ("azure\n  bucket: https://acme.blob.core.chinacloudapi.cn/states/", "https://acme.blob.core.chinacloudapi.cn/states"),
    ],
)
def test_an_address_of_a_bucket_is_taken_apart(tmp_path: Path, written_as: str, is_place: str) -> None:
    text = MINIMAL.replace("backend: filesystem", f"backend: {written_as}")
    location = load(written(tmp_path, text), {}).storage.location
    assert str(location) == is_place
    if location.endpoint is None:
        found = place_in(is_place)
        assert {name: getattr(location, name) for name in found} == found, "what is shown is an address, too"


def test_each_instance_gets_its_own_place(tmp_path: Path) -> None:
    second = '      - {name: two, url: "http://127.0.0.1:18082", state_directory: state/2, environment: {HEAP: 64}}\n'
    text = (MINIMAL + second).replace(
        "command: [java, Orders.java]", 'command: [java, "{name}"]\n    environment: {PORT: "{port}", DIR: "{state_directory}"}'
    )
    process = load(written(tmp_path, text), {}).runs.process
    assert process is not None
    assert [process.command_of(instance) for instance in process.instances] == [["java", "one"], ["java", "two"]]
    assert process.environment_of(process.instances[1]) == {"PORT": "18082", "DIR": str(tmp_path / "state/2"), "HEAP": "64"}
    assert "state_directory" in refused(tmp_path, text.replace("state/2", "state/1"))


def test_a_store_is_restored_from_its_changelog_or_from_a_topic_of_the_application(tmp_path: Path) -> None:
    stores = "stores: {totals: {}, memory: {logged: false}, latest: {source: orders-in}}\n"
    config = load(written(tmp_path, MINIMAL + stores), {})
    assert config.changelogs == {"totals": "orders-totals-changelog"}
    assert config.sources == {"latest": "orders-in"}
    told = refused(tmp_path, MINIMAL + "stores: {latest: {source: elsewhere}}\n")
    assert "stores.latest.source: elsewhere is neither in topics.inputs nor in topics.globals" in told


def test_an_unknown_application_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL)
    written(tmp_path, "not: [yaml", "broken.yaml")
    with pytest.raises(NotFound, match="known: broken, orders"):
        load_named("payments", tmp_path, {})
    assert load_named("orders", tmp_path, {}).name == "orders", "a broken neighbour does not stand in the way"


def elsewhere(name: str, port: int) -> str:
    """A file for another application, which runs elsewhere."""
    text = MINIMAL.replace("id: orders", f"id: {name}").replace("directory: run", f"directory: run/{name}")
    return text.replace("18081", str(port)).replace("state/1", f"state/{name}")


OTHERS = {"billing": elsewhere("billing", 18082), "late": elsewhere("late", 18083)}


def loaded_beside(directory: Path, files: dict[str, str]) -> dict[str, str]:
    """What is wrong with each of these files, in a directory with two good ones that load all the same."""
    for name, text in {**{f"{name}.yaml": text for name, text in OTHERS.items()}, **files}.items():
        written(directory, text, name)
    found = load_all(directory, {})
    assert set(found.applications) == set(OTHERS)
    return {name: str(error) for name, error in found.broken.items()}


@pytest.mark.fault("F59")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\nversion: 1\n", "broken.yaml:2: the key 'version' is there twice"),
        (MINIMAL.replace("version: 1", "version: 2"), "broken.yaml:1: version"),
        ("a: " + "[" * 100_000, "broken.yaml:1: the file is nested too deeply"),
        ("{a: " * 50_000, "broken.yaml:1: the file is nested too deeply"),
        (
            MINIMAL.replace("path: repository", "path: ~nobody-of-this-name/repository"),
            "storage.path: '~nobody-of-this-name/repository' begins",
        ),
    ],
)
def test_a_file_that_cannot_be_used_breaks_only_its_own_application(tmp_path: Path, text: str, said: str) -> None:
    found = loaded_beside(tmp_path, {"broken.yaml": text})
    assert set(found) == {"broken"}
    assert said in found["broken"]
    assert "Next: " in found["broken"]


def test_what_nobody_thought_of_in_one_file_is_that_file_s_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.yaml").write_text(MINIMAL)

    def fails(path: Path, environment: object) -> object:
        if path.stem == "wrong":
            raise ZeroDivisionError
        return load(path, environment)  # type: ignore[arg-type]

    monkeypatch.setattr("streams_recovery.config.loader.load", fails)
    assert "wrong.yaml cannot be read: ZeroDivisionError" in loaded_beside(tmp_path, {})["wrong"]


def test_two_files_for_one_application_break_both_and_nobody_else(tmp_path: Path) -> None:
    found = loaded_beside(tmp_path, {"orders.yaml": MINIMAL, "again.yaml": MINIMAL})
    assert set(found) == {"orders", "again"}
    assert all("orders and again both describe the application orders on kafka_default" in said for said in found.values())
    assert load_named("orders", tmp_path, {}).application.id == "orders", "who names one of them gets it"


@pytest.mark.fault("F59")
@pytest.mark.parametrize(
    ("own", "copied", "said"),
    [
        ("run/payments", "run", "the instance one in {}/run;"),
        ("18084", "18081", "the instance at http://127.0.0.1:18081;"),
    ],
)
def test_a_file_that_was_copied_and_half_changed_stops_nobody_else(tmp_path: Path, own: str, copied: str, said: str) -> None:
    found = loaded_beside(tmp_path, {"orders.yaml": MINIMAL, "payments.yaml": elsewhere("payments", 18084).replace(own, copied)})
    assert set(found) == {"orders", "payments"}
    assert all(f"runs of orders and payments are about the same: {said.format(tmp_path)}" in told for told in found.values())


def test_a_state_directory_is_shared_where_each_application_has_its_own_folder_in_it(tmp_path: Path) -> None:
    shared = elsewhere("payments", 18084).replace("state/payments", "state/1")
    for name, text in {"orders": MINIMAL, "payments": shared}.items():
        written(tmp_path, text, f"{name}.yaml")
    assert set(load_all(tmp_path, {}).applications) == {"orders", "payments"}
    same_id = shared.replace("id: payments", "id: orders").replace("topics:", "source: {connection: another}\ntopics:", 1)
    written(tmp_path, same_id, "payments.yaml")
    broken = load_all(tmp_path, {}).broken
    assert all(f"are about the same: the local state in {tmp_path}/state/1/orders;" in str(broken[name]) for name in ("orders", "payments"))


def test_two_files_about_one_workload_break_both(tmp_path: Path) -> None:
    begin = MINIMAL.index("runs:")
    pods = "runs: {kind: kubernetes, kubernetes: {namespace: shop, workload: deployment/orders, state_directory: /var/lib/state, port: 8080%s}}\n"
    text = MINIMAL[:begin] + pods
    written(tmp_path, text % "", "orders.yaml")
    written(tmp_path, text.replace("id: orders", "id: payments") % "", "payments.yaml")
    assert "are about the same: deployment/orders in namespace shop;" in str(load_all(tmp_path, {}).broken["orders"])
    written(tmp_path, text.replace("id: orders", "id: payments") % ", kubeconfig: another", "payments.yaml")
    assert load_all(tmp_path, {}).broken == {}


EVERY_DAY_BY_HAND = "monitor: {schedule: none}\ncheck: {schedule: none}\ndags: {without: [every day]}\n"


@pytest.mark.parametrize(
    ("text", "said", "next_step"),
    [
        (
            EVERY_DAY_BY_HAND,
            "dags.without of orders has 'every day', and DAGs of that group are to run by themselves: backup.schedule is ",
            "take 'every day' out of dags.without, or write backup.schedule: none",
        ),
        (
            EVERY_DAY_BY_HAND + "archive: {enabled: true}\n",
            "* * * *, archive.enabled is true",
            "write backup.schedule: none and archive.dag: false",
        ),
        ("dags: {without: [every day, upkeep]}\n", ": retention.schedule is ", "write retention.schedule: none"),
        (
            'compact: {schedule: "0 1 * * *"}\ndags: {without: [upkeep]}\n',
            "compact.schedule is 0 1 * * *, retention.schedule",
            "compact.schedule: none",
        ),
        ('run: {schedule: "0 1 * * *"}\ndags: {without: [every day]}\n', "run.schedule is 0 1 * * *", "run.schedule: none"),
    ],
)
def test_a_group_whose_dags_a_schedule_runs_cannot_be_off(tmp_path: Path, text: str, said: str, next_step: str) -> None:
    path = written(tmp_path, MINIMAL + text)
    load(path, {})  # by itself it is right
    found = load_all(tmp_path, {})
    assert (found.applications, set(found.broken)) == ({}, {"orders"})
    assert said in found.broken["orders"].reason
    assert next_step in found.broken["orders"].next_step


@pytest.mark.parametrize(
    "text",
    [
        EVERY_DAY_BY_HAND + "archive: {enabled: true, dag: false}\n",
        "dags: {without: [ways back, trying things, looking]}\n",
        "retention: {schedule: none}\ndags: {without: [upkeep]}\n",
    ],
)
def test_a_group_that_nothing_runs_by_itself_can_be_off(tmp_path: Path, text: str) -> None:
    written(tmp_path, MINIMAL.replace("survive_cluster_loss: true", "survive_cluster_loss: true\n  schedule: none") + text)
    assert load_all(tmp_path, {}).broken == {}


def test_a_drill_on_a_schedule_keeps_its_group_on(tmp_path: Path) -> None:
    written(tmp_path, APPLICATION + DRILL + "dags: {without: [trying things]}\n")
    assert "drill.schedule is " in load_all(tmp_path, {}).broken["orders"].reason
    written(tmp_path, APPLICATION + DRILL + "  enabled: false\ndags: {without: [trying things]}\n")
    assert load_all(tmp_path, {}).broken == {}


@pytest.mark.parametrize(
    ("names", "own", "broken"),
    [
        (["outputs", "orders"], "", {"outputs"}),
        (["outputs_orders", "orders"], "orders", {"outputs_orders", "orders"}),
        (["outputs_orders", "orders"], "outputs_orders", {"outputs_orders", "orders"}),
        (["outputs_orders", "orders"], "", set()),
        (["outputs_orders", "payments"], "payments", set()),
    ],
)
def test_names_by_which_two_dags_would_have_one_id_are_refused(tmp_path: Path, names: list[str], own: str, broken: set[str]) -> None:
    for at, name in enumerate(names):
        text = (
            MINIMAL.replace("orders", name)
            .replace("18081", str(18081 + at))
            .replace("state/1", f"state/{name}")
            .replace(": run\n", f": {name}\n")
        )
        written(tmp_path, text + f"access: {{own_dags: {str(name == own).lower()}}}\n", f"{name}.yaml")
    found = load_all(tmp_path, {}).broken
    assert set(found) == broken, found
    assert all(f"would have the id streams_compare_{names[0]}, and that is that of" in str(told) for told in found.values())


def test_an_application_that_contradicts_several_is_told_all_of_it(tmp_path: Path) -> None:
    clone = "clone:\n  of: gone\nrestore: {topic_map: {real: own}}\n"
    told = '{name: one, url: "http://127.0.0.1:18081", state_directory: state/1, environment: {OUT: own}}'
    cut_over = clone.replace("  of: gone\n", "  of: gone\n  cut_over: {environment: {OUT: real}}\n")
    text = MINIMAL.replace("inputs: [orders-in]", "inputs: [orders-in]\n  outputs: [own]") + cut_over
    text = text.replace('{name: one, url: "http://127.0.0.1:18081", state_directory: state/1}', told.replace("environment: {OUT: own}", ""))
    text = text.replace(", }", "}").replace(
        "    command: [java, Orders.java]", "    command: [java, Orders.java]\n    environment: {OUT: own}"
    )
    found = loaded_beside(tmp_path, {"orders.yaml": text, "again.yaml": MINIMAL})
    assert "both describe the application orders" in found["orders"]
    assert "orders is a clone of gone, which is not configured" in found["orders"]
    assert "clone of gone" not in found["again"]


@pytest.mark.parametrize("second", [".yml", ".YAML"])
def test_a_name_with_two_files_is_refused_and_no_other(tmp_path: Path, second: str) -> None:
    found = loaded_beside(tmp_path, {"orders.yaml": MINIMAL, f"orders{second}": MINIMAL})
    assert set(found) == {"orders"}
    assert f"orders is configured twice, as {' and as '.join(sorted(['.yaml', second]))}" in found["orders"]
    with pytest.raises(ConfigInvalid, match="configured twice"):
        load_named("orders", tmp_path, {})
    assert load_named("late", tmp_path, {}).name == "late"


def test_an_absent_file_or_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"gone\.yaml cannot be read"):
        load(tmp_path / "gone.yaml", {})
    with pytest.raises(ConfigInvalid, match="does not exist"):
        load_all(tmp_path / "gone", {})


def test_the_example_loads_without_any_variable() -> None:
    config = load_all(CONFIGS, {}).applications["order-processing"]
    assert config.topics.inputs == ("orders", "inventory")
    assert config.stores["order-versions"].kind is StoreKind.VERSIONED


def test_the_published_schema_is_up_to_date() -> None:
    published = (CONFIGS / "application.schema.json").read_text(encoding="utf-8")
    assert published == rendered(), "run: python -m streams_recovery.config.schema include/configs/application.schema.json"


def test_editors_and_loader_agree_about_the_example() -> None:
    schema = application_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    plain = yaml.safe_load((CONFIGS / "order-processing.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(json.dumps(plain)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain | {"topicz": {}}, schema)


def test_loading_imports_nothing_heavy() -> None:
    heavy = ("airflow", "pyspark", "obstore", "confluent_kafka", "kafka", "pyarrow", "pandas")
    code = f"import sys, streams_recovery.config.loader; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT / "plugins", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_configurations_are_loaded() -> None:
    assert set(load_all(CONFIGS, {}).applications) == {"order-processing"}
    assert load_all(CONFIGS, {}).broken == {}


NEIGHBOUR = elsewhere("orders-eu", 18085).replace("inputs: [orders-in]", "inputs: [orders-eu-in]")


def test_other_applications_on_the_same_cluster_are_known_by_their_ids_and_changelogs(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL + DRILL.replace("{totals: drill-totals, late: drill-late}", "{}"), "orders.yaml")
    written(tmp_path, NEIGHBOUR + "stores: {totals: {}, latest: {logged: false}}\n", "eu.yaml")
    written(tmp_path, NEIGHBOUR.replace("orders-eu", "orders-us").replace("18085", "18086") + "source: {connection: other}\n", "us.yaml")
    written(tmp_path, "not: [yaml", "broken.yaml")
    configs = load_all(tmp_path, {}).applications
    orders = {"orders": frozenset[str](), "drill-orders": frozenset[str]()}
    eu = {"orders-eu": frozenset({"orders-eu-totals-changelog"})}
    assert set(configs) == {"orders", "eu", "us"}
    assert neighbours(configs["orders"], configs) == eu
    assert neighbours(configs["eu"], configs) == orders
    assert neighbours(configs["us"], configs) == {}, "what runs on another cluster has no topics here"
    assert neighbours(load_named("orders:drill", tmp_path, {}), configs) == eu


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ("owned: [orders-by-day-repartition], foreign: [orders-eu-totals-changelog]", None),
        ("owned: [orders-eu-t-changelog], foreign: [orders-eu-t-changelog]", "is in owned and in foreign"),
        ("owned: [orders-totals]", "topics.owned: orders-totals is not called like an internal topic of orders"),
        ("foreign: [billing-t-changelog]", "topics.foreign: billing-t-changelog is not called like an internal topic of orders"),
        ("foreign: [orders-eu-totals-changelog, orders-totals-changelog]", "orders-totals-changelog is the changelog of the store totals"),
    ],
)
def test_topics_of_its_own_and_of_others_are_named_once_and_by_their_names(tmp_path: Path, topics: str, problem: str | None) -> None:
    text = MINIMAL.replace("  inputs: [orders-in]", f"  {{inputs: [orders-in], {topics}}}") + "stores: {totals: {}}\n"
    if problem is not None:
        assert problem in refused(tmp_path, text)
        return
    found = load(written(tmp_path, text + DRILL.replace("{totals: drill-totals, late: drill-late}", "{}")), {})
    assert (found.topics.owned, found.topics.foreign) == (("orders-by-day-repartition",), ("orders-eu-totals-changelog",))
    drill = load_named("orders:drill", tmp_path, {}).topics
    assert (drill.owned, drill.foreign) == (("drill-orders-by-day-repartition",), ())


def test_a_checkout_has_its_configurations_in_itself_unless_the_environment_names_a_directory() -> None:
    assert config_directory({"AIRFLOW_HOME": "/srv/airflow"}) == PROJECT / "include" / "configs"
    assert config_directory({"STREAMS_RECOVERY_CONFIG_DIR": "/srv/configs"}) == Path("/srv/configs")
