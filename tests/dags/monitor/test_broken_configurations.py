"""Who hears of a configuration that cannot be used, and that it can be used again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams_recovery.core.errors import TransientError
from streams_recovery.operators import monitor as configurations
from tests.support.airflow.listener import Listener
from tests.support.airflow.monitored import LISTENER, configuration, context

AT_ONCE = {"over_after": "PT0S"}
NAMED = [{"notifier": LISTENER, "arguments": {"message": "{{ alert.application }} {{ alert.news }} {{ alert.cause }}"}}]


def check_configurations(run_id: str = "manual__1") -> None:
    configurations.CheckConfigurationsOperator(task_id="check").execute(context(run_id=run_id))


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
        configuration(directory, name, notify=NAMED, alerts=AT_ONCE)
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
        configuration(directory, name, notify=NAMED, alerts=AT_ONCE)
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
