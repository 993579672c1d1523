"""What reprocesses an interval has names and processes of its own, whichever interval and slot it is; a configuration in which it had not is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.loader import load, load_all, load_named
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import SandboxName
from streams_recovery.core.errors import ConfigInvalid
from tests.support.examples.configurations import APPLICATION, DRILL, REPROCESS, refused, written

TIME = "20261121T120000Z"
PROGRAMS = """\
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
    written(tmp_path, application + PROGRAMS)
    runs = load_named(f"orders:reprocess:{TIME}:2", tmp_path, {}).runs
    assert runs.command is not None
    assert runs.command.start == ("start", f"again.in-{TIME}", f"again.totals-{TIME}", f"--late=again.late-{TIME}")
    assert (runs.command.status, runs.command.environment) == (("look", "2"), {"SLOT": "slot-2"})
    assert "again.late-20261121T120000.000Z is neither" in refused(
        tmp_path, application + PROGRAMS.replace(', "--late=again.late-{interval}"', "")
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
