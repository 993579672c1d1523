"""What is called with an alert, and what it sees of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.config.loader import load_application, load_applications
from streams_recovery.core.errors import ConfigInvalid, TransientError
from streams_recovery.core.escaping import visible
from streams_recovery.core.status.alerts import News
from streams_recovery.core.status.facts import finding
from streams_recovery.core.status.report import Severity
from streams_recovery.operations import status
from streams_recovery.operators import monitor as tasks
from streams_recovery.operators.outcome import alert_of, notifier_class, problems, tell_through
from tests.support.airflow.listener import Listener
from tests.support.airflow.monitored import LISTENER, configuration, context
from tests.support.hostile import HOSTILE
from tests.support.project import PROJECT


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
    notice = status.Notice(application="orders", news=News.RAISED, finding=finding("lag-high", Severity.WARNING, "behind"), since=0)
    with pytest.raises(TransientError, match=r"no\.such\.Thing"):
        tell_through(load_application("orders"), context())([notice])
    assert Listener.heard == ["raised lag-high"]


def test_an_alert_is_one_visible_line_whatever_it_is_about() -> None:
    found = finding("lag-high", Severity.WARNING, HOSTILE, subject=HOSTILE, remedies=[HOSTILE])
    alert = alert_of(status.Notice(application="orders", news=News.RAISED, finding=found, since=0))
    assert alert["title"] == f"orders: {visible(HOSTILE)}"
    assert (alert["text"], alert["subject"], alert["remedies"]) == (visible(HOSTILE), visible(HOSTILE), [visible(HOSTILE)])
    assert all(part.isprintable() for part in alert.values() if isinstance(part, str))


def test_a_template_sees_everything_about_an_alert(directory: Path) -> None:
    message = "{{ alert.title }} | {{ alert.severity }} | {{ alert.runbook }} | {{ alert.numbers.lag }} | {{ alert.remedies | join }} | {{ run_id }}"
    configuration(directory, "orders", notify=[{"notifier": LISTENER, "arguments": {"message": message}}])
    found = finding("lag-high", Severity.WARNING, "behind", remedies=["a", "b"], numbers={"lag": 5.0})
    notice = status.Notice(application="orders", news=News.OVER, finding=found, since=0)
    for _ in range(2):
        tell_through(load_application("orders"), context())([notice])
    assert Listener.heard == ["orders: over: behind | warning | alerts.md#lag-high | 5.0 | ab | manual__1"] * 2
