"""The ``monitor`` section: how often an application is looked at, what was promised, what counts as a finding, and who hears of it."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import Annotated, Final, Self

from croniter import croniter
from pydantic import AfterValidator, Field, JsonValue, model_validator

from streams_recovery.config.fields import AsSection, Duration, Section, Url, default_of, explained
from streams_recovery.config.rules import Schedule
from streams_recovery.core import codec
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.connection import unencrypted
from streams_recovery.core.status.limits import AlertPolicy, Limits, MonitorLimits
from streams_recovery.core.words import milliseconds

# Firings of a schedule are looked at for more than a week, so that a weekend counts; where they are rare, this many of them.
_FIRING_SECONDS: Final = 8 * 86_400
_FIRINGS: Final = 25
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
# A savepoint, or a look, may be missed once: it counts as late when the one after it is missing too.
_LATE = 2
# Seconds. Airflow may be busy.
_FRESH = 900.0
_NO_REMINDER = "none"


def _notifier(value: str) -> str:
    if not _CLASS.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is not a class with its module, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier")
    return value


def _address(value: str) -> str:
    if unencrypted(value):
        raise ValueError("the address is plain http to another machine, and whoever has it can pretend that all is well; use https")
    return value


def _reminder(value: str) -> str:
    if value != _NO_REMINDER:
        milliseconds(value)
    return value


Notifier = Annotated[str, AfterValidator(_notifier)]
PingUrl = Annotated[Url, AfterValidator(_address)]
Reminder = Annotated[str, AfterValidator(explained(_reminder))]


class MonitorObjectives(Section):
    """Promises: how old the newest exact savepoint may be, how long a recovery may take, and how much input the loss of the cluster may cost, as the
    age of what is kept. Null is no promise.
    """

    newest_age: Duration | None = None
    recovery_time: Duration | None = None
    loss: Duration | None = None


class MonitorAlerts(Section):
    """Findings that people are told of: those at least as severe as ``severity``, again every ``reminder`` unless that is ``none``."""

    severity: Severity = Severity.WARNING
    reminder: Reminder = _NO_REMINDER


class Notify(Section):
    """A notifier of Airflow: its class, and what it is made with. Texts among the arguments are templates, with ``alert`` in them."""

    notifier: Notifier
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class Monitor(Section):
    """Looks at the application. ``schedule`` null or ``none`` means only by hand. ``ping_url`` is requested after each look that was stored;
    ``docs_url`` is where docs/ can be read, for links in alerts.
    """

    schedule: Schedule = "*/5 * * * *"
    objectives: MonitorObjectives = MonitorObjectives()
    limits: Annotated[MonitorLimits, AsSection(MonitorLimits)] = default_of(MonitorLimits)
    alerts: MonitorAlerts = MonitorAlerts()
    notify: tuple[Notify, ...] = ()
    ping_url: PingUrl | None = None
    docs_url: Url | None = None

    def limits_for(self, savepoint_schedule: str | None) -> Limits:
        """The limits as numbers, for an application whose savepoints have this schedule."""
        objectives, pause = self.objectives, longest_pause(savepoint_schedule)
        return Limits(
            newest_age=seconds(objectives.newest_age) if objectives.newest_age else None,
            recovery_time=seconds(objectives.recovery_time) if objectives.recovery_time else None,
            loss=seconds(objectives.loss) if objectives.loss else None,
            late_after=_LATE * pause if pause is not None else None,
            docs=self.docs,
            **codec.fields_of(MonitorLimits, self.limits),
        )

    @property
    def fresh_seconds(self) -> float | None:
        """Seconds for which a status says something of the present: until two looks are missing. None without a schedule of looks."""
        pause = longest_pause(self.schedule)
        return None if pause is None else max(_FRESH, _LATE * pause)

    @property
    def docs(self) -> str:
        """The place where docs/ can be read."""
        return self.docs_url or "docs"

    @property
    def policy(self) -> AlertPolicy:
        """The findings that are told, and how often."""
        alerts = self.alerts
        return AlertPolicy(
            severity=alerts.severity,
            reminder=None if alerts.reminder == _NO_REMINDER else seconds(alerts.reminder),
        )

    @model_validator(mode="after")
    def _promised_what_can_be_kept(self) -> Self:
        for name in ("newest_age", "recovery_time", "loss"):
            value = getattr(self.objectives, name)
            if value is not None and seconds(value) <= 0:
                raise ValueError(f"objectives.{name} is {value}; an objective is longer than nothing, and null is none")
        return self


@cache
def longest_pause(schedule: str | None) -> float | None:
    """Seconds between two firings of a cron expression at most, None without one."""
    if schedule is None:
        return None
    firings = croniter(schedule, 0)
    moments: list[float] = []
    while len(moments) < _FIRINGS or moments[-1] - moments[0] < _FIRING_SECONDS:
        moments.append(firings.get_next(float))
    return max(later - earlier for earlier, later in pairwise(moments))


def seconds(duration: str) -> float:
    """The length of an ISO 8601 duration."""
    return milliseconds(duration) / 1000
