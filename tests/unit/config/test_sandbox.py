"""A drill is refused as long as it could touch the application it is a drill of.

What reprocesses an interval has names and processes of its own, whichever interval and slot it is; a configuration in which it had not is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.loader import load, load_all, load_named
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox import clash
from streams_recovery.config.sandbox_application import SandboxName
from streams_recovery.core.errors import ConfigInvalid
from tests.support.examples.configurations import APPLICATION, DRILL, REPROCESS, refused, written

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
    # It shares no instance with the other one: that is refused too.
    for ours, theirs in (("directory: run", "directory: eu/run"), (":1808", ":1908"), ("state/", "eu/state/")):
        other = other.replace(ours, theirs)
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


TIME = "20261121T120000Z"
REPROCESS_BY_PROGRAMS = """\
reprocess:
  application_id: again-orders
  parallel: 3
  topic_map: {orders-in: again.in, totals: again.totals, late: again.late}
  command:
    status: [look, "{slot}"]
    stop: [stop, "{slot}"]
    start: [start, "again.in-{interval}", "again.totals-{interval}", "--late=again.late-{interval}"]
    wipe: [wipe, "{slot}"]
    environment: {SLOT: "slot-{slot}"}
"""


def test_an_interval_has_an_application_of_its_own_in_its_slot(tmp_path: Path) -> None:
    written(tmp_path, APPLICATION + REPROCESS)
    own = load_named("orders", tmp_path, {})
    found = load_named(str(SandboxName(application="orders", interval=TIME, slot=1)), tmp_path, {})
    assert (found.name, found.application.id) == (f"orders:reprocess:{TIME}:1", f"again-orders-{TIME}")
    assert found.topics.inputs == (f"again.in-{TIME}",)
    assert found.topics.outputs == (f"again.totals-{TIME}", f"again.late-{TIME}")
    assert found.restore.topic_map == {
        "orders-in": f"again.in-{TIME}",
        "totals": f"again.totals-{TIME}",
        "late": f"again.late-{TIME}",
    }
    assert (found.reprocess, found.drill, found.groups.include) == (None, None, ())
    process = found.runs.process
    assert process is not None
    assert process.command == ("java", f"-Dinput=again.in-{TIME}", "Orders.java")
    assert process.environment == {
        "ID": f"again-orders-{TIME}",
        "TOTALS": f"again.totals-{TIME}",
        "LATE": f"again.late-{TIME}",
        "HEAP": "1g",
        "SLOT": "1",
    }
    assert ([one.name for one in process.instances], process.directory) == (["again-2"], str(tmp_path / "again" / "run"))
    assert (found.storage, found.backup, found.application.guarantee) == (own.storage, own.backup, own.application.guarantee)


def test_programs_are_told_interval_and_slot(tmp_path: Path) -> None:
    command = "runs:\n  kind: command\n  command: {status: [look], stop: [stop], start: [start], wipe: [wipe]}\n"
    application = APPLICATION[: APPLICATION.index("runs:")] + command
    written(tmp_path, application + REPROCESS_BY_PROGRAMS)
    runs = load_named(f"orders:reprocess:{TIME}:2", tmp_path, {}).runs
    assert runs.command is not None
    assert runs.command.start == ("start", f"again.in-{TIME}", f"again.totals-{TIME}", f"--late=again.late-{TIME}")
    assert (runs.command.status, runs.command.environment) == (("look", "2"), {"SLOT": "slot-2"})
    assert "again.late-20261121T120000.000Z is neither" in refused(
        tmp_path, application + REPROCESS_BY_PROGRAMS.replace(', "--late=again.late-{interval}"', "")
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("late: again.late}", "nothing: again.late}", "outputs late have no name of their own, so reprocess would write into them"),
        ("{orders-in: again.in, ", "{", "input orders-in has no name of its own"),
        ("again-orders", "orders-again", "begin alike"),
        ("again.totals, ", "again.late, ", "again.late-20261121T120000.000Z would stand for 2 topics"),
        ('"again.totals-{interval}"', "again.totals", "again.totals-20261121T120000.000Z is neither"),
        ('"again-orders-{interval}"', "again-orders", "again-orders-20261121T120000.000Z is neither"),
        ('SLOT: "{slot}"', "SLOT: totals", "still names the output totals"),
        ("again/run", "run", "reprocess.process.directory: it is that of the application itself"),
        ("18085", "18082", "is an instance of the application itself"),
        ("18085", "18084", "two instances have the url"),
        ("again-2", "again-1", "two instances have the name again-1"),
        ("again/2", "again/1", "two instances have the state_directory"),
        ("parallel: 2", "parallel: 3", "reprocess.process.slots: 2 for 3 intervals at once"),
        ("parallel: 2", "parallel: 0", "parallel"),
        ("tables: [orders-in]", "tables: [totals]", "reprocess.tables: totals is no input"),
        ("PT10M", "10 minutes", "'10 minutes' is not a duration"),
        ('"0 * * * *"', "none", "needs a cron expression"),
        ('"0 * * * *"', "hourly", "is not a cron expression"),
        ("again-orders\n", f"{'a' * 230}\n", "application id"),
    ],
)
def test_what_could_touch_production_or_another_interval_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert said in refused(tmp_path, APPLICATION + REPROCESS.replace(old, new, 1 if old != "again-orders" else -1))


def test_without_a_section_or_for_what_is_no_interval_there_is_none(tmp_path: Path) -> None:
    written(tmp_path, APPLICATION)
    with pytest.raises(ConfigInvalid, match="reprocessing is not configured for orders"):
        load_named(f"orders:reprocess:{TIME}:0", tmp_path, {})
    written(tmp_path, APPLICATION + REPROCESS.replace("parallel: 2", "enabled: false"))
    with pytest.raises(ConfigInvalid, match="reprocessing is not configured for orders"):
        load_named(f"orders:reprocess:{TIME}:0", tmp_path, {})
    written(tmp_path, APPLICATION + REPROCESS)
    with pytest.raises(ConfigInvalid, match="no slot 2"):
        load_named(f"orders:reprocess:{TIME}:2", tmp_path, {})
    for which in ("yesterday:0", TIME, f"{TIME}:", f"{TIME}:x", f"../{TIME}:0", ""):
        with pytest.raises(ConfigInvalid, match="names no sandbox"):
            load_named(f"orders:reprocess:{which}", tmp_path, {})


def test_no_other_application_may_share_names_with_reprocessing(tmp_path: Path) -> None:
    written(tmp_path, APPLICATION + REPROCESS)
    other = APPLICATION.replace("id: orders", f"id: again-orders-{TIME}")
    written(tmp_path, other, "eu.yaml")
    assert "reprocessing of orders and eu would share topics" in str(load_all(tmp_path, {}).broken["eu"])
    (tmp_path / "eu.yaml").unlink()
    assert set(load_all(tmp_path, {}).applications) == {"orders"}
    written(tmp_path, APPLICATION + REPROCESS + DRILL.replace("drill-orders", "again-orders-x"))
    found = load_all(tmp_path, {})
    assert set(found.broken) == {"orders"}
    assert "the drill of orders and reprocessing of orders would share topics" in str(found.broken["orders"])


def test_a_drill_and_reprocessing_stand_beside_each_other(tmp_path: Path) -> None:
    config = load(written(tmp_path, APPLICATION + DRILL + REPROCESS), {})
    assert isinstance(config, ApplicationConfig)
    assert config.drill is not None
    assert config.reprocess is not None
    assert load_named("orders:drill", tmp_path, {}).application.id == "drill-orders"


SITES = """\
sites:
  dr:
    connection: kafka_dr
    runs:
      kind: process
      process:
        directory: run-dr
        command: [java, Orders.java]
        environment: {ID: orders}
        instances: [{name: one, url: "http://127.0.0.1:18091", state_directory: state-dr/1}]
"""


def test_an_interval_follows_the_application_to_another_site(tmp_path: Path) -> None:
    written(
        tmp_path,
        APPLICATION + REPROCESS.replace("  tables: [orders-in]\n", "") + SITES.replace("kafka_dr", "kafka_dr\n    topic_map: {totals: t2}"),
    )
    found = load_named(str(SandboxName(application="orders", interval=TIME, slot=1)), tmp_path, {}).at("dr")
    assert (found.source.connection, found.topics.inputs) == ("kafka_dr", (f"again.in-{TIME}",))
    assert {old: new for old, new in found.restore.topic_map.items() if "totals" in new} == {
        "totals": f"again.totals-{TIME}",
        "t2": f"again.totals-{TIME}",
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("18091", "18085", "http://127.0.0.1:18085 is an instance of the application itself, at dr"),
        ("run-dr", "again/run", "whose processes reprocess would stop, at dr"),
        ("kafka_dr", "kafka_dr\n    topic_map: {late: again.totals-x}", ""),
        ("kafka_dr", "kafka_dr\n    topic_map: {orders-in: in-dr}", "reprocess.tables: orders-in is called in-dr at dr"),
    ],
)
def test_what_would_touch_the_application_at_another_site_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = APPLICATION + REPROCESS + SITES.replace(old, new)
    if said:
        assert said in refused(tmp_path, text)
    else:
        assert load(written(tmp_path, text), {}).sites
