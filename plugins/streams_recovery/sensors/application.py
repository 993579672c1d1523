"""Sensors of an application. Each looks once where it runs and then gives its worker back: the triggerer goes on looking."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, Context, conf
from airflow.sdk.exceptions import AirflowFailException

from streams_recovery.core.waiting import HEARD_SECONDS
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations.conditions import WATCHES
from streams_recovery.triggers.application import WatchTrigger


class WatchSensor(Logged, BaseOperator):
    """Waits until ``watch`` is done, looking every ``interval`` seconds. After ``at_most`` Airflow fails the task; its result is what the last look told."""

    watch: ClassVar[str]
    template_fields: Sequence[str] = ("application_name",)

    def __init__(self, *, application_name: str, interval: float = 5.0, at_most: timedelta = timedelta(hours=6), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_name = application_name
        self.interval = interval
        self.at_most = at_most
        self.settle: float | None = None

    def facts(self) -> Mapping[str, Any]:
        """Facts that the look needs, as plain JSON. By default none."""
        return {}

    def execute(self, context: Context) -> str:
        """Look, and wait in the triggerer when it is not done."""
        facts = self.facts()
        with airflow_errors(), context_of(self.application_name) as recovery:
            found = WATCHES[self.watch](recovery, facts)
        self.log.info("%s", found.message)
        if not found.done:
            settle = conf.getfloat("workers", "min_heartbeat_interval") + HEARD_SECONDS if self.settle is None else self.settle
            trigger = WatchTrigger(
                application_name=self.application_name,
                watch=self.watch,
                facts={**facts, **found.facts},
                interval=self.interval,
                settle=settle,
            )
            self.defer(trigger=trigger, method_name="seen", timeout=self.at_most)
        return found.message

    def seen(self, context: Context, event: Mapping[str, Any]) -> str:
        """Return what the triggerer saw."""
        if not event.get("done"):
            raise AirflowFailException(str(event.get("error", "the triggerer ended without having seen it")))
        return str(event["message"])


class EndsReachedSensor(WatchSensor):
    """Waits until every record of the inputs up to ends captured before is processed, and all that they caused. ``captured`` is JSON with ``ends``, offsets
    by partition, and ``until``, a moment in milliseconds that is waited for instead, or null.
    """

    watch = "ends_reached"
    template_fields: Sequence[str] = ("application_name", "captured")

    def __init__(self, *, captured: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.captured = captured

    def facts(self) -> Mapping[str, Any]:
        found = json.loads(self.captured)
        return {"ends": found["ends"], "until": found["until"]}


class GroupEmptySensor(WatchSensor):
    """Waits until the application's group has no member."""

    watch = "group_empty"


class ApplicationStateSensor(WatchSensor):
    """Waits until every instance is in the Kafka Streams state ``state``, or, for ``GONE``, none is left."""

    watch = "application_state"
    template_fields: Sequence[str] = ("application_name", "state")

    def __init__(self, *, state: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state = state

    def facts(self) -> Mapping[str, Any]:
        return {"state": self.state}


class RestorationDoneSensor(WatchSensor):
    """Waits until the stores of every instance are read from their changelogs. It tells how many records are left, where the application reports that.

    It says nothing about what was restored: an application with empty changelogs is done at once.
    """

    watch = "restoration_done"
