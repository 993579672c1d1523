"""The tasks of the monitor: which applications are due, one look at each of them, configurations that cannot be used, and advice.

Another application tells of a broken configuration where there is one: the broken one's own notifiers and log of alerts may be out of reach.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from airflow.sdk import BaseOperator, Context, Variable
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.observability.stats import Stats
from croniter import croniter

from streams_recovery.config.loader import broken_notifiers, configurations, load_application, load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.status import info
from streams_recovery.core.status.alerts import News
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.run_findings import configuration_broken, monitor_failed
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations.context import wall_clock
from streams_recovery.operations.status.cluster import ping
from streams_recovery.operations.status.look import watch
from streams_recovery.operations.status.notices import Notice, advice, open_alerts, tell_news
from streams_recovery.operators.outcome import end_alerts_of_removed_dags, notifier_class, tell_by

LOGGER = logger("streams_recovery.operators.monitor")
# Variables of Airflow: what a look cannot write into the repository is remembered in one, else people would hear of it with each run.
_FAILED: Final = "streams_recovery_monitor_failed_"
# Who told of which configuration: the same one tells that it is over.
_BROKEN: Final = "streams_recovery_broken_configurations"
_SOURCE: Final = "configurations"

Tellers = dict[str, str]


class ChooseApplicationsOperator(Logged, BaseOperator):
    """Return the names of the applications that are due, and count a heartbeat. A run by hand looks at all of them."""

    def execute(self, context: Context) -> list[str]:
        configs, run = load_applications(), context["dag_run"]
        Stats.incr(info.metric("heartbeat"))
        Stats.gauge(info.metric("heartbeat_due_at_seconds"), _next_heartbeat(configs))
        if str(getattr(run.run_type, "value", run.run_type)) == "manual":
            return due(configs, None)
        before = context["ti"].get_previous_dagrun()
        return due(configs, run.run_after, since=None if before is None else before.logical_date)


class ObserveApplicationOperator(Logged, BaseOperator):
    """Look at one application, store its status, tell what is new, and send the metrics."""

    template_fields: Sequence[str] = ("application_name",)

    def __init__(self, *, application_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_name = application_name

    def execute(self, context: Context) -> dict[str, Any]:
        """Look. A problem of the application fails no task; only a look that could not be stored or told does."""
        config = load_application(self.application_name)
        try:
            with airflow_errors():
                report = self._looked(config, context)
        except (Exception, AirflowTaskTimeout) as error:  # a time-out is no Exception, and must not be swallowed
            Stats.incr(info.metric("look_failures", self.application_name), tags=_tags(config))
            _tell_failure(config, context, str(error))
            raise
        _tell_failure_over(config, context)
        for one in report.findings:
            self.log.info("%s %s: %s", one.severity, one.cause, one.text)
        if config.monitor.ping_url and (problem := ping(config.monitor.ping_url)):
            self.log.warning("The ping failed: %s", problem)
        return {"health": report.health.value, "findings": [one.cause for one in report.findings]}

    def _looked(self, config: ApplicationConfig, context: Context) -> StatusReport:
        for notify in config.monitor.notify:
            notifier_class(notify.notifier)
        with context_of(config.name) as recovery:
            report = watch(recovery)
            _send(report, config)
            run, tell = f"monitor {context['run_id']}", tell_by(config.monitor.notify, context)
            tell_news(recovery, report.findings, run=run, tell=tell)
            end_alerts_of_removed_dags(recovery, run=run, tell=tell)
        return report


class CheckConfigurationsOperator(Logged, BaseOperator):
    """Tell of configurations that cannot be used, and when they can be again. The first application that has notifiers tells. Where none has, each is told
    through the notifiers in its own file, as far as these can be read.
    """

    def execute(self, context: Context) -> None:
        """Check. Raises the first of what could not be told, once all else is."""
        found = configurations()
        broken, configs = found.broken, found.applications
        Stats.gauge(info.metric("broken_configurations"), len(broken))
        for error in broken.values():
            self.log.error("%s", error)
        known = _remembered()
        tellers = _tellers(known, broken, configs)
        known_now, failures = dict[str, str](), list[RecoveryError]()
        for teller in sorted({*tellers.values(), *_able(configs)[:1]}):
            of_it = [name for name, one in tellers.items() if one == teller]
            try:
                known_now |= _notify(teller, of_it, known, broken, configs, context)
            except RecoveryError as error:
                failures.append(error)
                known_now |= {name: teller for name in of_it if known.get(name) == teller}
        _remember(known, known_now)
        with airflow_errors():
            for failure in failures:
                raise failure


class AdviseOperator(Logged, BaseOperator):
    """Return what makes a recovery of the application slow or impossible, as a list of findings for XCom. Each is logged too. It changes nothing, and
    succeeds whatever it finds.
    """

    template_fields: Sequence[str] = ("application_name",)

    def __init__(self, *, application_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_name = application_name

    def execute(self, context: Context) -> list[Any]:
        """Look, and tell."""
        with airflow_errors(), context_of(self.application_name) as recovery:
            found = advice(recovery)
        for finding in found:
            self.log.info("%s, %s: %s", finding.severity, finding.kind, finding.text)
            for remedy in finding.remedies:
                self.log.info("    %s", remedy)
        plain: list[Any] = codec.encode(found)
        return plain


def due(configs: Mapping[str, ApplicationConfig], moment: datetime | None, *, since: datetime | None = None) -> list[str]:
    """The applications whose monitor is due at this minute, all of them without one. With ``since``, the minute of the run before, also those that were due in
    between: Airflow leaves out all runs but the newest where one took long or the scheduler was away.
    """
    if moment is None:
        return sorted(configs)

    def fired(schedule: str) -> bool:
        return croniter.match(schedule, moment) or (since is not None and croniter(schedule, moment).get_prev(datetime) > since)

    schedules = {name: config.monitor.schedule for name, config in configs.items()}
    return sorted(name for name, schedule in schedules.items() if schedule is not None and fired(schedule))


def schedules(configs: Mapping[str, ApplicationConfig]) -> list[str]:
    """The schedules of all applications, each once."""
    return sorted({config.monitor.schedule for config in configs.values() if config.monitor.schedule is not None})


def _next_heartbeat(configs: Mapping[str, ApplicationConfig]) -> float:
    """The time when the next run is overdue, in Unix seconds; 0 where nothing has a schedule."""
    fresh = [seconds for config in configs.values() if (seconds := config.monitor.fresh_seconds) is not None]
    return wall_clock() / 1000 + min(fresh) if fresh else 0.0


def _send(report: StatusReport, config: ApplicationConfig) -> None:
    for name, value in info.gauges(report).items():
        Stats.gauge(info.metric(name, config.name), value, tags=_tags(config))
    Stats.incr(info.metric("looks", config.name), tags=_tags(config))


def _tags(config: ApplicationConfig) -> dict[str, str]:
    return {"application": config.name}


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
        tell_by(config.monitor.notify, context)([Notice(application=config.name, news=news, finding=finding, since=wall_clock())])
    except RecoveryError as error:
        LOGGER.error("%s", error)  # noqa: TRY400
        return False
    return True


def _able(configs: Mapping[str, ApplicationConfig]) -> list[str]:
    return sorted(name for name, config in configs.items() if config.monitor.notify)


def _tellers(known: Tellers, broken: Mapping[str, ConfigInvalid], configs: Mapping[str, ApplicationConfig]) -> Tellers:
    """The teller of each configuration that is, or was, broken: the application whose monitor told of it first, as long as it has a file."""
    first = next(iter(_able(configs)), None)
    lasting = {name: teller for name, teller in known.items() if teller in configs or teller in broken}
    return {name: first or name for name in broken} | lasting


def _notify(
    teller: str,
    names: list[str],
    known: Tellers,
    broken: Mapping[str, ConfigInvalid],
    configs: Mapping[str, ApplicationConfig],
    context: Context,
) -> Tellers:
    """Tell what is new of these; return those that people go on to know of."""
    others = [name for name in names if name != teller]
    itself = {teller: teller} if teller in names and _notify_by_itself(teller, known, broken, configs, context) else {}
    if teller not in configs:
        # It is broken itself: its log of alerts is read again when it can be used.
        return {**itself, **dict.fromkeys(others, teller)}
    return {**itself, **dict.fromkeys(_notify_with_log(configs[teller], others, broken, context), teller)}


def _notify_with_log(teller: ApplicationConfig, names: list[str], broken: Mapping[str, ConfigInvalid], context: Context) -> list[str]:
    findings = {name: configuration_broken(name, broken[name].reason, docs=teller.monitor.docs) for name in names if name in broken}
    with context_of(teller.name) as recovery:
        run, tell = f"{_SOURCE} {context['run_id']}", tell_by(teller.monitor.notify, context)
        # A file can be used, or it cannot: this comes and goes with a person, and by itself never.
        tell_news(recovery, findings.values(), run=run, tell=tell, source=_SOURCE, over_after=0)
        return [one.finding.subject for one in open_alerts(recovery) if one.source == _SOURCE]


def _notify_by_itself(
    name: str, known: Tellers, broken: Mapping[str, ConfigInvalid], configs: Mapping[str, ApplicationConfig], context: Context
) -> bool:
    """Tell what is new of it. Return True if people know then that it is broken."""
    if name in broken and name in known:
        return True
    notifiers = broken_notifiers(name) if name in broken else configs[name].monitor.notify
    if not notifiers:
        return False
    finding = configuration_broken(name, broken[name].reason if name in broken else "it can be used again", docs="docs")
    news = News.RAISED if name in broken else News.OVER
    tell_by(notifiers, context)([Notice(application=name, news=news, finding=finding, since=wall_clock())])
    return name in broken


def _remembered() -> Tellers:
    try:
        found: Any = json.loads(Variable.get(_BROKEN, default=None) or "{}")
    except ValueError:
        return {}
    return {str(name): str(teller) for name, teller in found.items()} if isinstance(found, dict) else {}


def _remember(before: Tellers, after: Tellers) -> None:
    if after and after != before:
        Variable.set(_BROKEN, json.dumps(after, sort_keys=True))
    elif before and not after:
        Variable.delete(_BROKEN)
