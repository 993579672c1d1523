"""The tasks of the monitor: which applications are due, and one look at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow.sdk import BaseOperator, Context, Variable
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.observability.stats import Stats
from croniter import croniter

from streams_recovery.config.directory import load_application, load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.status import metrics
from streams_recovery.core.status.alerts import News
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.run_findings import monitor_failed
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations import status
from streams_recovery.operations.context import wall_clock
from streams_recovery.operators.notifications import notifier_class, tell_through
from streams_recovery.operators.outcome import end_alerts_of_removed_dags

LOGGER = logger("streams_recovery.operators.monitor")
_FAILED = "streams_recovery_monitor_failed_"


class ChooseApplicationsOperator(Logged, BaseOperator):
    """Return the names of the applications that are due, and count a heartbeat. A run by hand looks at all of them."""

    def execute(self, context: Context) -> list[str]:
        configs, run = load_applications(), context["dag_run"]
        Stats.incr(metrics.metric("heartbeat"))
        Stats.gauge(metrics.metric("heartbeat_due_at_seconds"), _next_heartbeat(configs))
        manual = str(getattr(run.run_type, "value", run.run_type)) == "manual"
        return due(configs, None if manual else run.run_after)


class ObserveApplicationOperator(Logged, BaseOperator):
    """Look at one application, store its status, tell what is new, and send the metrics."""

    template_fields: Sequence[str] = ("application_name",)

    def __init__(self, *, application_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_name = application_name

    def execute(self, context: Context) -> dict[str, Any]:
        """Look. What is wrong with the application fails no task; only a look that could not be stored or told does."""
        config = load_application(self.application_name)
        try:
            with airflow_errors():
                report = self._looked(config, context)
        except (Exception, AirflowTaskTimeout) as error:  # a time-out is no Exception: nobody may swallow it
            Stats.incr(metrics.metric("look_failures", self.application_name), tags=_tags(config))
            _tell_failure(config, context, str(error))
            raise
        _tell_failure_over(config, context)
        for one in report.findings:
            self.log.info("%s %s: %s", one.severity, one.cause, one.text)
        if config.monitor.ping_url and (problem := status.ping(config.monitor.ping_url)):
            self.log.warning("The ping failed: %s", problem)
        return {"health": report.health.value, "findings": [one.cause for one in report.findings]}

    def _looked(self, config: ApplicationConfig, context: Context) -> StatusReport:
        for notify in config.monitor.notify:
            notifier_class(notify.notifier)
        with context_of(config.name) as recovery:
            report = status.watch(recovery)
            _send(report, config)
            run, tell = f"monitor {context['run_id']}", tell_through(config, context)
            status.tell_news(recovery, report.findings, run=run, tell=tell)
            end_alerts_of_removed_dags(recovery, run=run, tell=tell)
        return report


def due(configs: Mapping[str, ApplicationConfig], moment: datetime | None) -> list[str]:
    """The applications whose monitor is due at this minute, all of them without one."""
    if moment is None:
        return sorted(configs)
    schedules = {name: config.monitor.schedule for name, config in configs.items()}
    return sorted(name for name, schedule in schedules.items() if schedule is not None and croniter.match(schedule, moment))


def schedules(configs: Mapping[str, ApplicationConfig]) -> list[str]:
    """The schedules of all applications, each once."""
    return sorted({config.monitor.schedule for config in configs.values() if config.monitor.schedule is not None})


def _next_heartbeat(configs: Mapping[str, ApplicationConfig]) -> float:
    """When the next run is overdue, in Unix seconds; 0 where nothing has a schedule."""
    fresh = [seconds for config in configs.values() if (seconds := config.monitor.fresh_seconds) is not None]
    return wall_clock() / 1000 + min(fresh) if fresh else 0.0


def _send(report: StatusReport, config: ApplicationConfig) -> None:
    for name, value in metrics.gauges(report).items():
        Stats.gauge(metrics.metric(name, config.name), value, tags=_tags(config))
    Stats.incr(metrics.metric("looks", config.name), tags=_tags(config))


def _tags(config: ApplicationConfig) -> dict[str, str]:
    return {"application": config.name}


# What a look cannot write into the repository is remembered in a variable of Airflow: else people would hear of it with each run.
def _tell_failure(config: ApplicationConfig, context: Context, problem: str) -> None:
    if (
        config.monitor.notify
        and Variable.get(_FAILED + config.name, default=None) is None
        and _delivered(config, context, News.RAISED, problem)
    ):
        Variable.set(_FAILED + config.name, str(wall_clock()))


def _tell_failure_over(config: ApplicationConfig, context: Context) -> None:
    known = Variable.get(_FAILED + config.name, default=None) if config.monitor.notify else None
    if known is not None and _delivered(config, context, News.OVER, "it works again"):
        Variable.delete(_FAILED + config.name)


def _delivered(config: ApplicationConfig, context: Context, news: News, problem: str) -> bool:
    """False when it could not be told: a later run tries again, and what is wrong with the notifier is in the log."""
    finding = monitor_failed(config.name, problem, docs=config.monitor.docs)
    try:
        tell_through(config, context)([status.Notice(application=config.name, news=news, finding=finding, since=wall_clock())])
    except RecoveryError as error:
        LOGGER.error("%s", error)  # noqa: TRY400
        return False
    return True
