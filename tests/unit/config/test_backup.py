"""What is saved and where: the location of the repository, who may restore, which records survive the loss of the cluster, and how an application is held."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from streams_recovery.application.factory import open_application
from streams_recovery.config.backup import DagRight, Storage
from streams_recovery.config.loader import load, load_all
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import Profile, QuiesceMode, TopicRole
from tests.support.examples.configurations import MINIMAL, refused, written

_CREDENTIALS = {"connection", "seal", "encryption", "mirror"}


def test_a_location_has_every_key_but_the_way_to_the_credentials() -> None:
    section = Storage(
        backend="s3",
        bucket="b",
        prefix="orders",
        region="eu-west-1",
        endpoint="http://127.0.0.1:9000",
        path_style=True,
        allow_http=True,
        sse="aws:kms",
        kms_key_id="k",
    )
    assert asdict(section.location) == {name: value for name, value in section if name not in _CREDENTIALS}


# A second place


def test_a_second_place_is_filled_after_each_savepoint_or_when_its_schedule_says(tmp_path: Path) -> None:
    found = {}
    for schedule in ("savepoints", "none", '"H 1 * * *"'):
        mirror = f"mirror: {{backend: filesystem, path: elsewhere, schedule: {schedule}}}"
        second = load(written(tmp_path, MINIMAL.replace("path: repository", f"path: repository\n  {mirror}")), {}).storage.second_place
        assert second is not None
        assert (second.location.path or "").endswith("/elsewhere")
        found[schedule] = second.schedule
    own = found.pop('"H 1 * * *"')
    assert found == {"savepoints": "savepoints", "none": None}
    assert (own or "H").partition(" ")[0].isdigit(), "a minute of its own"


def test_an_archive_that_comes_to_the_second_place_behind_savepoints_only_may_lack_what_came_between_two(tmp_path: Path) -> None:
    mirror = "mirror: {backend: filesystem, path: elsewhere}"
    plain = MINIMAL.replace("path: repository", f"path: repository\n  {mirror}")
    archived = f"{plain}archive: {{enabled: true}}\n"
    assert load(written(tmp_path, archived), {}).archived_alone_seconds == 3_600
    for other in (MINIMAL, plain, archived.replace("path: elsewhere", "path: elsewhere, enabled: false")):
        assert load(written(tmp_path, other), {}).archived_alone_seconds is None
    own = archived.replace("path: elsewhere", "path: elsewhere, schedule: '*/5 * * * *'")
    assert load(written(tmp_path, own), {}).archived_alone_seconds is None


@pytest.mark.parametrize(
    ("mirror", "said"),
    [
        ("{backend: filesystem, path: repository}", "is the repository itself; a copy in the same place is lost with it"),
        ("{backend: filesystem, path: repository/second}", "are one inside the other"),
        ("{backend: s3}", "so bucket is needed"),
        ("{backend: s3, bucket: b, schedule: hourly}", "is not a cron expression"),
        ("{backend: s3, bucket: b, seal: {}}", "seal"),
    ],
)
def test_a_second_place_that_is_none_is_refused(tmp_path: Path, mirror: str, said: str) -> None:
    assert said in refused(tmp_path, MINIMAL.replace("path: repository", f"path: repository\n  mirror: {mirror}"))


def test_a_second_place_that_would_be_filled_behind_no_savepoint_is_refused(tmp_path: Path) -> None:
    text = MINIMAL.replace("path: repository", "path: repository\n  mirror: {backend: filesystem, path: elsewhere}")
    never = text.replace("survive_cluster_loss: true", "survive_cluster_loss: true\n  schedule: none")
    assert never != text
    written(tmp_path, never)
    (said,) = load_all(tmp_path, {}).broken.values()
    assert "the second place would be filled behind nothing" in str(said)
    written(tmp_path, never.replace("path: elsewhere}", "path: elsewhere, schedule: none}"))
    assert not load_all(tmp_path, {}).broken


def test_a_second_place_has_the_rules_of_the_first_one_but_for_those_of_its_own(tmp_path: Path) -> None:
    place = "mirror: {backend: filesystem, path: elsewhere, retention: {keep_monthly: 36, keep_last: 0}}"
    text = (
        MINIMAL.replace("path: repository", f"path: repository\n  {place}") + "retention: {keep_monthly: 2, keep_daily: 5, apply: false}\n"
    )
    config = load(written(tmp_path, text), {})
    first, second = config.retention, config.from_second_place.retention
    assert (first.keep_last, first.keep_daily, first.keep_monthly) == (24, 5, 2)
    assert (second.keep_last, second.keep_daily, second.keep_monthly) == (0, 5, 36)
    assert second.apply is first.apply
    # And back again.
    assert config.from_second_place.storage.second_place is not None
    assert (
        load(written(tmp_path, text.replace(", retention: {keep_monthly: 36, keep_last: 0}", "")), {}).from_second_place.retention == first
    )


def test_rules_of_the_second_place_that_no_person_can_follow_are_refused(tmp_path: Path) -> None:
    for wrong, said in (("{schedule: none}", "schedule"), ("{minimum: 0}", "minimum:"), ("{keep_last: -1}", "keep_last:")):
        place = f"mirror: {{backend: filesystem, path: elsewhere, retention: {wrong}}}"
        assert f"storage.mirror.retention.{said}" in refused(tmp_path, MINIMAL.replace("path: repository", f"path: repository\n  {place}"))


def test_a_second_place_can_be_switched_off_by_a_variable(tmp_path: Path) -> None:
    mirror = "mirror:\n    enabled: ${SECOND}\n    backend: filesystem\n    path: repository"
    text = MINIMAL.replace("path: repository", f"path: repository\n  {mirror}")
    assert load(written(tmp_path, text), {"SECOND": "false"}).storage.second_place is None


# Access


def test_without_the_section_access_an_application_has_what_all_have(tmp_path: Path) -> None:
    access = load(written(tmp_path, MINIMAL), {}).access
    assert (access.own_dags, access.roles, access.sources, access.approval.restricts) == (False, None, (), False)


def test_rights_are_read(tmp_path: Path) -> None:
    text = f"{MINIMAL}access: {{own_dags: true, roles: {{payments-team: run, support: view}}, approvers: [anna], approvers_exclude_trigger: true}}\n"
    access = load(written(tmp_path, text), {}).access
    assert access.roles == {"payments-team": DagRight.RUN, "support": DagRight.VIEW}
    assert (access.approval.approvers, access.approval.exclude_trigger) == (("anna",), True)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("roles: {support: view}", "write own_dags: true"),
        ("roles: {}", "write own_dags: true"),
        ("sources: [other]", "write own_dags: true"),
        ("own_dags: true, roles: {support: admin}", "access.roles.support"),
        ("approvers: ['']", "access.approvers.0"),
        ("approver: [anna]", "did you mean approvers?"),
    ],
)
def test_what_would_give_no_right_is_refused(tmp_path: Path, section: str, said: str) -> None:
    assert said in refused(tmp_path, f"{MINIMAL}access: {{{section}}}\n")


def test_a_source_that_is_not_configured_is_named(tmp_path: Path) -> None:
    written(tmp_path, f"{MINIMAL}access: {{own_dags: true, sources: [orders, billing]}}\n")
    found = load_all(tmp_path, {})
    assert list(found.applications) == []
    assert "access.sources of orders: billing is not configured; known: orders" in str(found.broken["orders"])


# Which records are archived

TOPICS = "inputs: [orders-in, late-in]\n  outputs: [out]\n  globals: [rates]"
BACKUP = "backup:\n  survive_cluster_loss: true\n"


def configured(directory: Path, *, survive: object = True, profile: str = "full", topics: str = "") -> ApplicationConfig:
    text = MINIMAL.replace("inputs: [orders-in]", f"{TOPICS}\n  {topics}")
    assert BACKUP in text
    path = directory / "orders.yaml"
    path.write_text(text.replace(BACKUP, f"backup:\n  survive_cluster_loss: {survive}\n  profile: {profile}\n"))
    return load(path, {})


def archived(config: ApplicationConfig) -> set[str]:
    declared = config.declared(Profile.FULL)
    return {name for name, role in config.topics.declared.items() if declared.archives(name, role)}


@pytest.mark.parametrize("section", ["", "backup: {}\n", "backup: {schedule: none}\n"])
def test_whether_savepoints_survive_the_cluster_has_to_be_written(tmp_path: Path, section: str) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(MINIMAL.replace(BACKUP, section))
    with pytest.raises(ConfigInvalid, match=r"backup(\.survive_cluster_loss)? is missing") as error:
        load(path, {})
    assert error.value.facts["file"] == str(path)
    assert error.value.facts["lines"] != [None]
    for word in ("survive_cluster_loss", "true", "records of inputs and globals", "false"):
        assert word in str(error.value)


def test_what_is_read_is_archived_where_savepoints_are_to_survive(tmp_path: Path) -> None:
    assert archived(configured(tmp_path)) == {"orders-in", "late-in", "rates"}
    assert archived(configured(tmp_path, topics="include: [out]")) == {"orders-in", "late-in", "rates", "out"}
    assert archived(configured(tmp_path, survive=False)) == set()
    assert archived(configured(tmp_path, survive=False, topics="include: ['*-in', out]\n  exclude: [late-in]")) == {"orders-in", "out"}
    found = configured(tmp_path).declared(Profile.FULL)
    assert found.archives("nobody-declared", TopicRole.INPUT), "an input that only its committed offsets show"


def test_what_would_be_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"topics\.exclude takes late-in, rates out"):
        configured(tmp_path, topics="exclude: [late-*, rates, out]")
    assert archived(configured(tmp_path, topics="include: ['*']\n  exclude: [out]")) == {"orders-in", "late-in", "rates"}


def test_a_minimal_savepoint_without_its_inputs_could_never_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="orders-in, late-in are not archived"):
        configured(tmp_path, survive=False, profile="minimal")
    with pytest.raises(ConfigInvalid, match="records of late-in are not archived"):
        configured(tmp_path, survive=False, profile="minimal", topics="include: ['*']\n  exclude: [late-in]")
    configured(tmp_path, survive=False, profile="minimal", topics="include: ['*-in']")
    configured(tmp_path, survive=True, profile="minimal")


@pytest.mark.parametrize(
    ("archive", "other", "why"),
    [
        ("state: true", ("", ""), "it is the archiver that takes cuts"),
        (
            "enabled: true, state: true",
            ("exactly_once_v2", "at_least_once"),
            "can be cut exactly only where its guarantee is exactly_once_v2",
        ),
        ("enabled: true, state: true", (BACKUP, f"{BACKUP}  profile: minimal\n"), "cuts are behind savepoints with state"),
        (
            "enabled: true, state: true",
            ("inputs: [orders-in]", "inputs: [orders-in]\n  outputs: [orders-in]"),
            "reads orders-in, which it writes itself",
        ),
        (
            "enabled: true, state: true",
            ("inputs: [orders-in]", "inputs: [orders-in]\n  outputs: [rates]\n  globals: [rates]"),
            "reads rates, which it writes itself",
        ),
        ("enabled: true", (BACKUP, BACKUP.replace("true", "false")), "what it archives is behind the inputs that savepoints have"),
    ],
)
def test_an_archive_that_could_not_be_is_refused(tmp_path: Path, archive: str, other: tuple[str, str], why: str) -> None:
    path = tmp_path / "orders.yaml"
    text = MINIMAL.replace("guarantee: at_least_once", "guarantee: exactly_once_v2")
    path.write_text(f"{text.replace(*other)}archive: {{{archive}}}\n")
    with pytest.raises(ConfigInvalid, match=why):
        load(path, {})
    path.write_text(f"{text}archive: {{enabled: true, state: true}}\n")
    assert load(path, {}).archive.state


# How the application is held

PROGRAMS = "status: [s], stop: [s], start: [s], wipe: [s]"
COMMAND = MINIMAL[: MINIMAL.index("runs:")] + f"runs: {{kind: command, command: {{{PROGRAMS}}}}}\n"


def with_consistency(directory: Path, text: str, consistency: str = "", **application: object) -> ApplicationConfig:
    for key, value in application.items():
        text = text.replace("  guarantee:", f"  {key}: {value}\n  guarantee:")
    path = directory / "orders.yaml"
    path.write_text(text.replace("runs:", f"  consistency: {{{consistency}}}\nruns:"))
    return load(path, {})


def controlled(control: str) -> str:
    return MINIMAL.replace("    instances:", f"    control: {{{control}}}\n    instances:")


@pytest.mark.parametrize(
    ("text", "application", "mode"),
    [
        (MINIMAL, {}, "pause"),
        (controlled("pause: null"), {}, "stop"),
        (controlled("resume: null"), {}, "stop"),
        (COMMAND, {}, "stop"),
        (COMMAND.replace(PROGRAMS, f"{PROGRAMS}, pause: [p], resume: [r]"), {}, "pause"),
        (MINIMAL, {"standby_replicas": 1}, "stop"),
    ],
)
def test_by_default_it_is_paused_where_it_can_be_and_stopped_where_not(
    tmp_path: Path, text: str, application: dict[str, object], mode: str
) -> None:
    config = with_consistency(tmp_path, text, **application)
    assert config.quiesce_mode == mode
    assert open_application(config.runs, "orders").can_pause is (config.runs.chosen.no_pause_because is None)


@pytest.mark.parametrize(
    ("consistency", "stopping"),
    [
        ("mode: pause, fallback: stop", ["stop", "live"]),
        ("mode: live, fallback: stop", ["stop", "live"]),
        ("mode: stop", ["stop"]),
        ("mode: live", ["stop"]),
    ],
)
def test_only_a_savepoint_of_an_application_that_is_left_alone_falls_back_to_a_stop(
    tmp_path: Path, consistency: str, stopping: list[str]
) -> None:
    config = with_consistency(tmp_path, MINIMAL, consistency)
    assert [mode for mode in ("stop", "live", "pause") if config.may_stop(QuiesceMode(mode))] == stopping


@pytest.mark.parametrize("text", [controlled("pause: null"), controlled("resume: null"), COMMAND])
@pytest.mark.parametrize("consistency", ["mode: pause", "mode: live, fallback: pause"])
def test_a_pause_that_the_application_does_not_offer_is_refused_with_its_place(tmp_path: Path, text: str, consistency: str) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be paused") as error:
        with_consistency(tmp_path, text, consistency)
    assert error.value.facts["file"] == str(tmp_path / "orders.yaml")
    assert ("runs.command has no" in error.value.reason) == (text == COMMAND)
    assert with_consistency(tmp_path, text, "mode: live").quiesce_mode == "live"
    assert with_consistency(tmp_path, text, "mode: stop").quiesce_mode == "stop"


def test_a_program_that_pauses_what_no_program_resumes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"runs\.command: pause and resume go together"):
        with_consistency(tmp_path, COMMAND.replace(PROGRAMS, f"{PROGRAMS}, pause: [p]"))
