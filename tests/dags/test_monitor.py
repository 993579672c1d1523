"""The monitor's DAG, where no broker answers: which applications are due, what becomes of a look, and who hears of what is found."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Variable
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout
from airflow.timetables import trigger
from airflow.timetables.base import DataInterval, TimeRestriction

from streams_recovery.config.loader import load_application, load_applications
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.errors import ConfigInvalid, TransientError
from streams_recovery.core.escaping import visible
from streams_recovery.core.project_files import DIRECTORY
from streams_recovery.core.status import info
from streams_recovery.core.status.alerts import News
from streams_recovery.core.status.facts import finding
from streams_recovery.operations.status import notices as status_notices
from streams_recovery.operators import monitor as tasks
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.outcome import alert_of, ended, notifier_class, outcome_callbacks, problems, tell_by
from streams_recovery.workflows.dags import own_dags, removed_dags
from tests.support.airflow.monitored import LISTENER, Listener, configuration, context
from tests.support.hostile import HOSTILE
from tests.support.project import PROJECT


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory, with a configuration of ``orders``."""
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}))
    configuration(tmp_path, "orders")
    Listener.heard.clear()
    Listener.out = False
    yield tmp_path
    Listener.heard.clear()
    Listener.out = False


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What was sent to Airflow's stats: gauges as they are now, counters as they add up. Airflow sends them to a server, or
    nowhere when none is configured, and keeps nothing that could be read back.
    """
    found: dict[str, float] = {}

    def incr(name: str, count: int = 1, **_: Any) -> None:
        found[name] = found.get(name, 0) + count

    stats = SimpleNamespace(incr=incr, gauge=lambda name, value, **_: found.update({name: value}))
    monkeypatch.setattr(tasks, "Stats", stats)
    return found


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables of Airflow. Its own are answered by the supervisor of a task that runs; here none runs."""
    found: dict[str, str] = {}
    monkeypatch.setattr(Variable, "get", staticmethod(lambda key, default=None: found.get(key, default)))
    monkeypatch.setattr(Variable, "set", staticmethod(lambda key, value: found.update({key: value})))
    monkeypatch.setattr(Variable, "delete", staticmethod(found.pop))
    return found


TICK = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def test_the_dag_is_on_by_itself_and_has_the_schedules_of_all(metadata: None, directory: Path) -> None:
    configuration(directory, "payments", schedule="0 * * * *")
    configuration(directory, "by-hand", schedule=None)
    bag = DagBag(str(PROJECT / "dags" / "streams_monitor.py"))
    assert bag.import_errors == {}
    dag = bag.dags["streams_monitor"]
    assert (dag.is_paused_upon_creation, dag.catchup, dag.max_active_runs, dag.dagrun_timeout) == (False, False, 1, None)
    assert {task.task_id: task.upstream_task_ids for task in dag.tasks} == {
        "check_configurations": set(),
        "choose_applications": set(),
        "observe": {"choose_applications"},
    }
    assert tasks.schedules(load_applications()) == ["*/5 * * * *", "0 * * * *"]


def test_who_is_due_follows_the_schedules(directory: Path) -> None:
    configuration(directory, "payments", schedule="0 * * * *")
    configuration(directory, "by-hand", schedule=None)
    configs = load_applications()
    assert tasks.due(configs, TICK) == ["orders"]
    assert tasks.due(configs, TICK.replace(minute=0)) == ["orders", "payments"]
    assert tasks.due(configs, TICK.replace(minute=31)) == []
    assert tasks.due(configs, None) == ["by-hand", "orders", "payments"]


def test_who_was_due_in_a_run_that_airflow_left_out_is_looked_at_by_the_next_one(directory: Path, sent: dict[str, float]) -> None:
    configuration(directory, "payments", schedule="2 3 * * *")
    three, at = TICK.replace(hour=3, minute=0), TICK.replace(hour=3, minute=11)
    runs = behind(three, now=at)
    assert runs == [at.replace(minute=10), at.replace(minute=15)], "the run of 03:02 is left out"
    for previous, run, chosen in ((three, runs[0], ["orders", "payments"]), (runs[0], runs[1], ["orders"]), (None, runs[0], ["orders"])):
        found = None if previous is None else SimpleNamespace(logical_date=previous)
        ti = SimpleNamespace(get_previous_dagrun=lambda found=found: found)
        given = context(dag_run=SimpleNamespace(run_type="scheduled", run_after=run), ti=ti)
        assert tasks.ChooseApplicationsOperator(task_id="choose").execute(given) == chosen


def behind(after: datetime, *, now: datetime) -> list[datetime]:
    """The next two runs of the monitor that Airflow makes behind that of this minute."""
    timetable = trigger.MultipleCronTriggerTimetable(*tasks.schedules(load_applications()), timezone="UTC")
    found, last = list[datetime](), pendulum.instance(after)
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(trigger, "utcnow", lambda: pendulum.instance(now))
        clock.setattr(trigger.time, "time", now.timestamp)
        for _ in range(2):
            restriction = TimeRestriction(None, None, catchup=False)
            made = timetable.next_dagrun_info(last_automated_data_interval=DataInterval.exact(last), restriction=restriction)
            assert made is not None
            last = made.run_after
            found.append(datetime.fromtimestamp(last.timestamp(), UTC))
    return found


@pytest.mark.parametrize(("run_type", "chosen"), [("scheduled", []), ("manual", ["orders"])])
def test_each_run_is_a_heartbeat_and_one_by_hand_looks_at_all(
    directory: Path, sent: dict[str, float], run_type: str, chosen: list[str]
) -> None:
    run = SimpleNamespace(run_type=run_type, run_after=TICK.replace(minute=31))
    ti = SimpleNamespace(get_previous_dagrun=lambda: None)
    assert tasks.ChooseApplicationsOperator(task_id="choose").execute(context(dag_run=run, ti=ti)) == chosen
    due = sent.pop("streams_recovery.heartbeat_due_at_seconds")
    assert sent == {"streams_recovery.heartbeat": 1}
    assert 890 < due - time.time() <= 900


@pytest.mark.parametrize(("schedules", "seconds"), [(["0 * * * *", None], 7200), ([None, None], None), (["0 0 * * *", "*/5 * * * *"], 900)])
def test_the_next_heartbeat_is_due_by_the_most_frequent_schedule(
    directory: Path, sent: dict[str, float], schedules: list[str | None], seconds: float | None
) -> None:
    for name, schedule in zip(("orders", "payments"), schedules, strict=True):
        configuration(directory, name, schedule=schedule)
    tasks.ChooseApplicationsOperator(task_id="choose").execute(context(dag_run=SimpleNamespace(run_type="manual", run_after=TICK)))
    due = sent["streams_recovery.heartbeat_due_at_seconds"]
    assert due == 0 if seconds is None else seconds - 10 < due - time.time() <= seconds


def test_a_look_is_stored_told_and_sent(directory: Path, sent: dict[str, float], variables: dict[str, str]) -> None:
    observe = tasks.ObserveApplicationOperator(task_id="observe", application_name="orders")
    result = observe.execute(context())
    assert result["health"] == "trouble"
    assert set(Listener.heard) == {"raised no-savepoint", "raised not-seen:cluster"}
    assert sent["streams_recovery.exact_savepoint.orders"] == 0
    assert sent["streams_recovery.looks.orders"] == 1
    heard = len(Listener.heard)
    observe.execute(context(run_id="manual__2"))
    assert len(Listener.heard) == heard
    assert len(list((directory / "repository" / "orders" / "status").iterdir())) == 2
    known = {info.metric(name, "orders") for name in (*info.GAUGES, *info.COUNTERS)}
    assert set(sent) <= known


def test_a_look_that_cannot_be_stored_is_told_once_and_when_it_works_again(
    directory: Path, sent: dict[str, float], variables: dict[str, str]
) -> None:
    observe = tasks.ObserveApplicationOperator(task_id="observe", application_name="orders")
    (directory / "repository").write_text("a file where the repository should be")
    for _ in range(2):
        with pytest.raises(Exception, match="repository"):
            observe.execute(context())
    assert Listener.heard == ["raised monitor-failed"]
    assert sent == {"streams_recovery.look_failures.orders": 2}
    (directory / "repository").unlink()
    observe.execute(context())
    assert "over monitor-failed" in Listener.heard
    assert variables == {}


def test_a_look_that_takes_too_long_is_told_and_counted(
    directory: Path, sent: dict[str, float], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def alarm(*_: Any, **__: Any) -> None:
        raise AirflowTaskTimeout("the task has run for ten minutes")

    # Airflow raises it from a signal, wherever the task is then. Here that is always the same place.
    monkeypatch.setattr(tasks.Stats, "gauge", alarm)
    with pytest.raises(AirflowTaskTimeout):
        tasks.ObserveApplicationOperator(task_id="observe", application_name="orders").execute(context())
    assert Listener.heard == ["raised monitor-failed"]
    assert sent == {"streams_recovery.look_failures.orders": 1}


NAMED = [{"notifier": LISTENER, "arguments": {"message": "{{ alert.application }} {{ alert.news }} {{ alert.cause }}"}}]


def check_configurations(run_id: str = "manual__1") -> None:
    tasks.CheckConfigurationsOperator(task_id="check").execute(context(run_id=run_id))


def break_off(directory: Path, name: str) -> str:
    """Make a configuration one that cannot be used, by a key that there is not; return what it was."""
    file = directory / f"{name}.yaml"
    whole = file.read_text()
    file.write_text(json.dumps(json.loads(whole) | {"unknown": 1}))
    return whole


def test_broken_configurations_are_told_through_another_application(
    directory: Path, sent: dict[str, float], variables: dict[str, str]
) -> None:
    (directory / "broken.yaml").write_text("version: 2\n")
    for _ in range(2):
        check_configurations()
    assert Listener.heard == ["raised configuration-broken:broken"]
    assert sent == {"streams_recovery.broken_configurations": 1}
    assert json.loads(variables["streams_recovery_broken_configurations"]) == {"broken": "orders"}


def test_who_told_of_a_broken_configuration_tells_that_it_is_over(
    directory: Path, sent: dict[str, float], variables: dict[str, str]
) -> None:
    for name in ("orders", "payments"):
        configuration(directory, name, notify=NAMED)
    whole = break_off(directory, "orders")
    check_configurations("a")
    (directory / "another.yaml").write_text("version: 2\n")
    check_configurations("b")
    (directory / "orders.yaml").write_text(whole)
    for run in ("c", "d"):
        check_configurations(run)
    (directory / "another.yaml").unlink()
    check_configurations("e")
    assert Listener.heard == [
        "payments raised configuration-broken:orders",
        "payments raised configuration-broken:another",
        "payments over configuration-broken:orders",
        "payments over configuration-broken:another",
    ]


def test_the_only_application_tells_of_its_own_broken_configuration(
    directory: Path, sent: dict[str, float], variables: dict[str, str]
) -> None:
    configuration(directory, "orders", notify=NAMED)
    whole = break_off(directory, "orders")
    Listener.out = True
    with pytest.raises(TransientError, match="mail server"):
        check_configurations()
    Listener.out = False
    for _ in range(2):
        check_configurations()
    assert Listener.heard == ["orders raised configuration-broken:orders"]
    (directory / "orders.yaml").write_text(whole)
    for _ in range(2):
        check_configurations()
    assert Listener.heard == ["orders raised configuration-broken:orders", "orders over configuration-broken:orders"]
    assert variables == {}


@pytest.mark.parametrize("text", ["{", "version: 1\nmonitor: {notify: [{notifier: 1}]}\n", "monitor: []", "- a"])
def test_a_configuration_whose_notifiers_cannot_be_read_tells_nobody(
    directory: Path, sent: dict[str, float], variables: dict[str, str], text: str
) -> None:
    (directory / "orders.yaml").write_text(text)
    check_configurations()
    assert (Listener.heard, variables) == ([], {})
    assert sent == {"streams_recovery.broken_configurations": 1}


def test_what_cannot_be_told_now_is_told_later_and_silences_no_other(
    directory: Path, sent: dict[str, float], variables: dict[str, str]
) -> None:
    for name in ("orders", "payments"):
        configuration(directory, name, notify=NAMED)
    repository = directory / "elsewhere"
    config = json.loads((directory / "payments.yaml").read_text()) | {"storage": {"backend": "filesystem", "path": str(repository)}}
    (directory / "payments.yaml").write_text(json.dumps(config))
    whole = break_off(directory, "orders")
    check_configurations("a")
    repository.rename(directory / "lost")
    repository.write_text("no directory")
    (directory / "orders.yaml").write_text(whole)
    (directory / "another.yaml").write_text("version: 2\n")
    with pytest.raises(Exception, match="elsewhere"):
        check_configurations("b")
    assert Listener.heard[1:] == ["orders raised configuration-broken:another"]
    repository.unlink()
    (directory / "lost").rename(repository)
    check_configurations("c")
    assert Listener.heard[2:] == ["payments over configuration-broken:orders"]
    assert json.loads(variables["streams_recovery_broken_configurations"]) == {"another": "orders"}


def test_a_failed_run_is_told_once_and_over_with_the_next_that_succeeds(directory: Path) -> None:
    callbacks = outcome_callbacks("orders")
    for run in ("a", "b"):
        callbacks["on_failure_callback"](context(run_id=run, reason="task_failure"))
    callbacks["on_success_callback"](context(run_id="c"))
    callbacks["on_success_callback"](context(run_id="d"))
    assert Listener.heard == ["raised run-failed:streams_backup_orders", "over run-failed:streams_backup_orders"]


def test_a_plan_that_nobody_approved_is_no_failure_and_leaves_what_was_told_of_its_dag(directory: Path) -> None:
    approve = ApprovePlanOperator(application_name="orders", subject="Restore?")
    callbacks = outcome_callbacks("orders")
    callbacks["on_failure_callback"](context(run_id="a", reason="task_failure", task=approve))
    assert Listener.heard == []
    callbacks["on_failure_callback"](context(run_id="b", reason="task_failure"))
    callbacks["on_failure_callback"](context(run_id="c", reason="task_failure", task=approve))
    assert Listener.heard == ["raised run-failed:streams_backup_orders"]
    callbacks["on_failure_callback"](context(run_id="d", reason="timed_out", task=approve))
    assert Listener.heard == ["raised run-failed:streams_backup_orders"], "it is known already"


def test_a_failed_run_of_a_dag_that_there_is_no_longer_is_over(directory: Path, sent: dict[str, float], variables: dict[str, str]) -> None:
    for dag_id in ("streams_drill_orders", "streams_restore_full_orders", "streams_backup_orders"):
        ended(context(dag=DAG(dag_id, schedule=None)), application_name="orders", failed=True)
    Listener.heard.clear()
    for run in ("a", "b"):
        tasks.ObserveApplicationOperator(task_id="observe", application_name="orders").execute(context(run_id=run))
    over = [heard for heard in Listener.heard if heard.startswith("over")]
    assert sorted(over) == ["over run-failed:streams_drill_orders", "over run-failed:streams_restore_full_orders"]


@pytest.mark.parametrize("access", [{}, {"access": {"own_dags": True}}])
def test_the_monitor_knows_which_dags_a_configuration_has(metadata: None, directory: Path, access: dict[str, Any]) -> None:
    file = directory / "orders.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | access))
    found = {dag_id for dag_id in DagBag(str(PROJECT / "dags")).dags if dag_id.endswith("_orders")}
    assert found
    assert found == set(own_dags("orders")) - removed_dags(load_application("orders"))


def test_a_run_of_any_application_is_told_by_the_notifiers_of_the_one_it_was_for(directory: Path) -> None:
    configuration(directory, "payments", notify=False)
    callback = outcome_callbacks()["on_failure_callback"]
    callback(context(params={"application": "payments"}))
    callback(context(params={"application": "nobody"}))
    assert Listener.heard == []
    callback(context(params={}, dag_run=SimpleNamespace(conf={"application": "orders"}, run_id="x")))
    assert Listener.heard == ["raised run-failed:streams_backup_orders"]


def test_a_failed_run_is_told_although_it_cannot_be_written_down(directory: Path) -> None:
    (directory / "repository").write_text("a file where the repository should be")
    ended(context(), application_name="orders", failed=True)
    assert Listener.heard == ["raised run-failed:streams_backup_orders"]
    ended(context(), application_name="orders", failed=False)
    assert len(Listener.heard) == 1


def test_a_notifier_that_is_none_is_on_the_page_of_the_dag_and_fails_its_application(
    metadata: None, directory: Path, sent: dict[str, float], variables: dict[str, str]
) -> None:
    configuration(directory, "payments", notify=False)
    text = (directory / "orders.yaml").read_text().replace(LISTENER, "os.system")
    (directory / "orders.yaml").write_text(text)
    assert "os.system is no notifier of Airflow" in DagBag(str(PROJECT / "dags" / "streams_monitor.py")).dags["streams_monitor"].doc_md
    assert list(problems(load_applications())) == ["orders"]
    with pytest.raises(AirflowFailException, match=r"os\.system is no notifier"):
        tasks.ObserveApplicationOperator(task_id="observe", application_name="orders").execute(context())


@pytest.mark.parametrize("name", ["os.system", "no.such.Notifier", "airflow.sdk.DAG", "streams_recovery.config.model.ApplicationConfig"])
def test_only_notifiers_are_ever_called(name: str) -> None:
    with pytest.raises(ConfigInvalid):
        notifier_class(name)


def test_a_notifier_that_fails_silences_no_other_and_the_rest_is_told_again(directory: Path) -> None:
    configuration(directory, "orders", notify=[{"notifier": "no.such.Thing"}, {"notifier": LISTENER}])
    notice = status_notices.Notice(application="orders", news=News.RAISED, finding=finding("lag-high", Severity.WARNING, "behind"), since=0)
    with pytest.raises(TransientError, match=r"no\.such\.Thing"):
        tell_by(load_application("orders").monitor.notify, context())([notice])
    assert Listener.heard == ["raised lag-high"]


def test_an_alert_is_one_visible_line_whatever_it_is_about() -> None:
    found = finding("lag-high", Severity.WARNING, HOSTILE, subject=HOSTILE, remedies=[HOSTILE])
    alert = alert_of(status_notices.Notice(application="orders", news=News.RAISED, finding=found, since=0))
    assert alert["title"] == f"orders: {visible(HOSTILE)}"
    assert (alert["text"], alert["subject"], alert["remedies"]) == (visible(HOSTILE), visible(HOSTILE), [visible(HOSTILE)])
    assert all(part.isprintable() for part in alert.values() if isinstance(part, str))


def test_a_template_sees_everything_about_an_alert(directory: Path) -> None:
    message = "{{ alert.title }} | {{ alert.severity }} | {{ alert.runbook }} | {{ alert.numbers.lag }} | {{ alert.remedies | join }} | {{ run_id }}"
    configuration(directory, "orders", notify=[{"notifier": LISTENER, "arguments": {"message": message}}])
    found = finding("lag-high", Severity.WARNING, "behind", remedies=["a", "b"], numbers={"lag": 5.0})
    notice = status_notices.Notice(application="orders", news=News.OVER, finding=found, since=0)
    for _ in range(2):
        tell_by(load_application("orders").monitor.notify, context())([notice])
    assert Listener.heard == ["orders: over: behind | warning | alerts.md#lag-high | 5.0 | ab | manual__1"] * 2
