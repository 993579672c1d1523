"""Configurations that a monitor reads, what its tasks are given where no broker answers, and a notifier that keeps what it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from airflow.sdk import DAG, BaseNotifier

from tests.support.applications.fleet import programs
from tests.support.applications.monitored import ANY_DISK

LISTENER = "tests.support.airflow.monitored.Listener"


def configuration(directory: Path, name: str, *, notify: Any = True, schedule: str | None = "*/5 * * * *", **monitor: Any) -> None:
    """Write the configuration of one application; ``notify=True``: a listener of the test hears of it. Further names are keys below ``monitor``."""
    config = {
        "version": 1,
        "application": {"id": name, "guarantee": "exactly_once_v2"},
        "source": {"timeout_seconds": 1},
        "topics": {"inputs": ["in"]},
        "backup": {"survive_cluster_loss": False},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "runs": {"kind": "command", "command": programs(directory / name)},
        "monitor": {
            "schedule": schedule,
            "notify": [{"notifier": LISTENER}] if notify is True else notify or [],
            "limits": ANY_DISK,
            **monitor,
        },
    }
    (directory / f"{name}.yaml").write_text(json.dumps(config))


def context(**more: Any) -> Any:
    """What Airflow gives to a task or a callback of a backup."""
    return {"run_id": "manual__1", "dag": DAG("streams_backup_orders", schedule=None), **more}


class Listener(BaseNotifier):
    """``message`` is a template."""

    template_fields = ("message",)
    heard: ClassVar[list[str]] = []
    out: ClassVar[bool] = False

    def __init__(self, message: str = "{{ alert.news }} {{ alert.cause }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message

    def notify(self, context: Any) -> None:  # noqa: ARG002
        """Keep it, or fail as a mail server does that is down."""
        if Listener.out:
            raise ConnectionError("the mail server does not answer")
        Listener.heard.append(self.message)
