"""A drill is refused as long as it could touch the application it is a drill of."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.loader import load, load_all, load_named
from streams_recovery.config.sandbox import clash
from streams_recovery.config.sandbox_application import SandboxName
from streams_recovery.core.errors import ConfigInvalid
from tests.support.examples.configurations import APPLICATION, DRILL, refused, written

PROGRAMS = """\
drill:
  application_id: drill-orders
  topic_map: {totals: drill-totals, late: drill-late}
  command: {status: [look], stop: [stop], start: [start, drill-totals, --late=drill-late], wipe: [wipe]}
"""


def test_the_application_of_a_drill_is_the_same_but_for_what_would_touch_the_old_one(tmp_path: Path) -> None:
    written(tmp_path, APPLICATION + DRILL + "deploy: {command: [put, the-new-version]}\n")
    own, drill = (load_named(name, tmp_path, {}) for name in ("orders", "orders:drill"))
    assert own.deploy is not None
    assert drill.deploy is None, "it would put another version under the real application"
    assert (drill.name, drill.application.id) == ("orders:drill", "drill-orders")
    assert (drill.topics.inputs, drill.topics.outputs) == (("orders-in",), ("drill-totals", "drill-late"))
    assert drill.restore.topic_map == {"totals": "drill-totals", "late": "drill-late"}
    assert drill.restore.consumer_group_strategy == "exact"
    assert (drill.groups.include, drill.drill) == ((), None)
    assert drill.storage == own.storage
    process = drill.runs.process
    assert process is not None
    assert process.directory == str(tmp_path / "drill" / "run")
    assert process.command == ("java", "Orders.java")
    assert process.environment_of(process.instances[0]) == {
        "ID": "drill-orders",
        "TOTALS": "drill-totals",
        "LATE": "drill-late",
        "HEAP": "1g",
    }
    assert [instance.url for instance in process.instances] == ["http://127.0.0.1:18083"]
    assert own.application.id == "orders"


def test_a_drill_restores_a_table_from_its_own_copy_of_the_topic(tmp_path: Path) -> None:
    stores = "stores: {latest: {source: orders-in}, totals: {}}\n"
    copied = (APPLICATION + DRILL + stores).replace(
        "topic_map: {totals: drill-totals", "topic_map: {orders-in: drill-in, totals: drill-totals"
    )
    written(tmp_path, copied.replace("{ID: drill-orders,", "{ID: drill-orders, IN: drill-in,"))
    drill = load_named("orders:drill", tmp_path, {})
    assert (drill.topics.inputs, drill.sources) == (("drill-in",), {"latest": "drill-in"})
    written(tmp_path, APPLICATION + DRILL + stores)
    assert load_named("orders:drill", tmp_path, {}).sources == {"latest": "orders-in"}


def test_without_a_drill_there_is_no_application_of_it(tmp_path: Path) -> None:
    for text in (APPLICATION, APPLICATION + DRILL.replace("drill:\n", "drill:\n  enabled: false\n", 1)):
        written(tmp_path, text)
        with pytest.raises(ConfigInvalid, match="no drill is configured for orders"):
            load_named("orders:drill", tmp_path, {})


def test_a_drill_that_is_turned_off_is_not_compared_with_the_application(tmp_path: Path) -> None:
    text = APPLICATION + DRILL.replace("drill:\n", "drill:\n  enabled: false\n", 1).replace("drill-totals, late: drill-late", "totals")
    assert load(written(tmp_path, text), {}).drill is not None


@pytest.mark.parametrize(
    ("what", "second"),
    [
        ("name one", '{name: one, url: "http://127.0.0.1:18099", state_directory: drill/other}'),
        ("url http://127.0.0.1:18083", '{name: two, url: "http://127.0.0.1:18083", state_directory: drill/other}'),
        ("state_directory", '{name: two, url: "http://127.0.0.1:18099", state_directory: drill/state}'),
    ],
)
def test_two_instances_of_a_drill_share_nothing(tmp_path: Path, what: str, second: str) -> None:
    text = refused(tmp_path, APPLICATION + DRILL.replace("drill/state}]", f"drill/state}}, {second}]"))
    assert f"drill.process: instances: two of them have the {what}" in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("late: drill-late}\n", "}\n", "outputs late have no name of their own"),
        ("late: drill-late}\n", "late: late}\n", "late is a topic of the application itself"),
        ("late: drill-late}\n", "late: orders-in}\n", "orders-in is a topic of the application itself"),
        ("late: drill-late}\n", "late: drill-totals}\n", "drill-totals would stand for 2 topics"),
        ("late: drill-late}\n", "late: drill-late, lat: drill-x}\n", "lat is no topic of this application"),
        ("late: drill-late}\n", "late: drill-orders-x-changelog}\n", "is the name of an internal topic"),
        ("application_id: drill-orders", "application_id: orders-drill", "begin alike"),
        ("application_id: drill-orders", "application_id: orders", "begin alike"),
        ("directory: drill/run", "directory: run", "is that of the application itself"),
        ("18083", "18082", "http://127.0.0.1:18082 is an instance of the application itself"),
        ("http://127.0.0.1:18083", "http://drills:18083", "http://drills:18083 is plain http to another machine"),
        (", LATE: drill-late", "", "drill.process: drill-late is neither in the environment nor in the command"),
        (", LATE: drill-late", ", ELSE: drill-late", "still names the output late"),
        ("ID: drill-orders, ", "", "drill.process: drill-orders is neither in the environment"),
        ("  process:", "  procces:", "unknown key drill.procces; did you mean process?"),
    ],
)
def test_what_would_touch_the_application_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in DRILL
    assert said in refused(tmp_path, APPLICATION + DRILL.replace(old, new, 1))


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    said = refused(
        tmp_path, APPLICATION + DRILL.replace("drill-orders", "orders").replace("late: drill-late}\n", "}\n").replace("18083", "18081")
    )
    for part in ("begin alike", "outputs late", "18081 is an instance"):
        assert part in said


def test_programs_of_a_drill_are_its_own_and_are_told_its_names(tmp_path: Path) -> None:
    command = "runs:\n  kind: command\n  command: {status: [look], stop: [stop], start: [start], wipe: [wipe]}\n"
    application = APPLICATION[: APPLICATION.index("runs:")] + command
    config = load(written(tmp_path, application + PROGRAMS), {})
    assert config.drill is not None
    written(tmp_path, application + PROGRAMS)
    runs = load_named("orders:drill", tmp_path, {}).runs
    assert runs.command is not None
    assert runs.command.start == ("start", "drill-totals", "--late=drill-late")
    assert "drill.command is missing" in refused(tmp_path, application + DRILL)
    assert "drill-late is neither" in refused(tmp_path, application + PROGRAMS.replace(", --late=drill-late", ""))


def test_no_other_application_may_share_names_with_a_drill(tmp_path: Path) -> None:
    written(tmp_path, APPLICATION + DRILL)
    other = APPLICATION.replace("id: orders", "id: drill-orders-eu")
    written(tmp_path, other, "eu.yaml")
    found = load_all(tmp_path, {})
    assert (set(found.broken), found.applications) == ({"orders", "eu"}, {})
    assert "the drill of orders and eu would share topics: drill-orders and drill-orders-eu" in str(found.broken["eu"])
    written(tmp_path, other.replace("drill-orders-eu", "drill-ordersx"), "eu.yaml")
    assert set(load_all(tmp_path, {}).applications) == {"orders", "eu"}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("a", "a", True), ("a", "a-b", True), ("a-b", "a", True), ("a", "ab", False), ("drill-a", "a", False)],
)
def test_ids_clash_where_topics_of_one_could_be_taken_for_the_others(one: str, other: str, *, expected: bool) -> None:
    assert clash(one, other) is expected


@pytest.mark.parametrize(
    "name",
    [
        SandboxName(application="orders"),
        SandboxName(application="orders", interval="20261121T120000Z", slot=0),
        SandboxName(application="orders", interval="20261121T120000.250Z", slot=63),
    ],
    ids=str,
)
def test_a_sandbox_is_known_by_its_name(name: SandboxName) -> None:
    assert SandboxName.of(str(name)) == name


def test_a_name_without_a_colon_is_an_application() -> None:
    assert SandboxName.of("orders") is None


@pytest.mark.parametrize("which", ["", "drills", "drill:0", "reprocess", "reprocess:20261121T120000Z", "reprocess:20261121T120000Z:100"])
def test_what_names_no_sandbox_is_refused(which: str) -> None:
    with pytest.raises(ConfigInvalid, match="names no sandbox"):
        SandboxName.of(f"orders:{which}")
