"""The messages to people: that a run failed, once, and that a later one has succeeded. They go through the notifiers of Airflow that the configuration of the
application names.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any

from airflow.sdk import BaseNotifier

from streams_recovery.config.loader import load_application
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.monitor import Notify
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, RecoveryError, TransientError
from streams_recovery.core.escaping import Markdown, joined, logger, md, visible
from streams_recovery.core.status.alerts import News
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.core.status.run_findings import run_failed
from streams_recovery.hooks.context import context_of
from streams_recovery.operations.context import RecoveryContext, wall_clock
from streams_recovery.operations.status.notices import Notice, Tell, open_alerts, run_ended
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.workflows.dags import removed_dags

LOGGER = logger("streams_recovery.operators.outcome")
_TITLES = {News.RAISED: "", News.REMINDER: "still: ", News.OVER: "over: "}
_PARAM = "application"
# Airflow's word for a run that failed by a task of it.
_TASK_FAILED = "task_failure"
_NO_REASON = "see the first of its tasks that failed"


def outcome_callbacks(application_name: str = "") -> dict[str, Any]:
    """The callbacks of a DAG: for one application, or for the application that the run's param ``application`` names."""
    return {
        f"on_{outcome}_callback": partial(ended, application_name=application_name, failed=outcome == "failure")
        for outcome in ("failure", "success")
    }


def ended(context: Mapping[str, Any], *, application_name: str, failed: bool) -> None:
    """Tell how a run ended, through the notifiers of its application. Whatever is wrong is logged: the run is over."""
    name = application_name or _named(context)
    try:
        config = load_application(name)
    except RecoveryError as error:
        LOGGER.error("nobody hears how this run ended: %s", error)  # noqa: TRY400 - no traceback of ours is of use here
        return
    if not config.monitor.notify:
        return
    if failed and _not_approved(context):
        # People decided so. Alerts about earlier runs of this DAG stay as they are: this run has proven nothing.
        LOGGER.info("its plan was not approved: that is no failure")
        return
    dag_id, run_id = context["dag"].dag_id, str(context.get("run_id") or context["dag_run"].run_id)
    reason = str(context.get("reason") or _NO_REASON)
    finding = run_failed(dag_id, run_id, reason, docs=config.monitor.docs) if failed else None
    tell = tell_by(config.monitor.notify, context)
    try:
        with context_of(name) as recovery:
            run_ended(recovery, finding, source=_source(dag_id), run=f"{dag_id} {run_id}", tell=tell)
    except RecoveryError as error:
        LOGGER.warning("how this run ended cannot be written down: %s", error)
        if finding is not None:
            _tell_unwritten(config, finding, context)


def end_alerts_of_removed_dags(recovery: RecoveryContext, *, run: str, tell: Tell) -> None:
    """Tell that failed runs of DAGs that there are no longer are over: no later run of them could."""
    removed = {_source(dag_id) for dag_id in removed_dags(recovery.config)}
    for source in sorted({alert.source for alert in open_alerts(recovery)} & removed):
        run_ended(recovery, None, source=source, run=run, tell=tell)


def _source(dag_id: str) -> str:
    return f"dag {dag_id}"


def _not_approved(context: Mapping[str, Any]) -> bool:
    """Return True if the run failed in the task that waits for a person: Airflow gives the last task that failed."""
    return context.get("reason") == _TASK_FAILED and isinstance(context.get("task"), ApprovePlanOperator)


def _named(context: Mapping[str, Any]) -> str:
    params = context.get("params") or {}
    run = context.get("dag_run")
    return str(params.get(_PARAM) or (getattr(run, "conf", None) or {}).get(_PARAM) or "")


def _tell_unwritten(config: ApplicationConfig, finding: StatusFinding, context: Mapping[str, Any]) -> None:
    notice = Notice(application=config.name, news=News.RAISED, finding=finding, since=wall_clock())
    try:
        tell_by(config.monitor.notify, context)([notice])
    except RecoveryError as error:
        LOGGER.error("%s", error)  # noqa: TRY400


def tell_by(notifiers: Sequence[Notify], context: Mapping[str, Any]) -> Tell:
    """Tells what is new through each of these. Templates among their arguments see the task's context, and ``alert``."""

    def tell(notices: Sequence[Notice]) -> None:
        failures = [problem for notice in notices for notify in notifiers if (problem := _failure(notify, notice, context))]
        for notice in notices:
            LOGGER.warning("%s", title_of(notice))
        if failures:
            raise TransientError(
                f"{len(failures)} alerts could not be told: {'; '.join(failures)}",
                next_step="see what the notifier says; the next run of the monitor tries again",
            )

    return tell


def alert_of(notice: Notice) -> dict[str, Any]:
    """The facts that templates see as ``alert``: each text on one line, without characters that control how a message is shown."""
    finding = notice.finding
    alert = {
        "application": notice.application,
        "news": notice.news.value,
        "title": title_of(notice),
        "since": datetime.fromtimestamp(notice.since / 1000, UTC).isoformat(timespec="seconds"),
        "cause": finding.cause,
        **codec.encode(finding),
    }
    return {name: _visible(value) for name, value in alert.items()}


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    return [visible(one) for one in value] if isinstance(value, list) else value


def title_of(notice: Notice) -> str:
    """One line with the application, the news and the finding."""
    return visible(f"{notice.application}: {_TITLES[notice.news]}{notice.finding.text}")


def _failure(notify: Notify, notice: Notice, context: Mapping[str, Any]) -> str | None:
    try:
        # Rendering changes a notifier in place, and what it was made with.
        made: Any = notifier_class(notify.notifier)
        notifier = made(**copy.deepcopy(notify.arguments))
        notifier({**context, "alert": alert_of(notice)})
    except Exception as error:  # noqa: BLE001 - one notifier that fails must not silence the others
        return f"{notify.notifier}: {error}"
    return None


def notifier_class(dotted: str) -> type[BaseNotifier]:
    """The notifier of this name. Raises ``ConfigInvalid`` for what is not there, or is no notifier: nothing else that a file names is ever called."""
    module, _, name = dotted.rpartition(".")
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise ConfigInvalid(
            f"monitor.notify: {dotted} cannot be imported: {error}", next_step="correct the name, or install its provider"
        ) from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise ConfigInvalid(f"monitor.notify: {dotted} is no notifier of Airflow", next_step="name a class that is based on BaseNotifier")
    return found


def problems(configs: Mapping[str, ApplicationConfig]) -> dict[str, str]:
    """The mistake in the notifiers of each application that has one, by its name."""
    found = {}
    for name, config in configs.items():
        for notify in config.monitor.notify:
            try:
                notifier_class(notify.notifier)
            except ConfigInvalid as error:
                found[name] = error.reason
    return found


def problems_text(configs: Mapping[str, ApplicationConfig]) -> Markdown:
    """The ``problems`` as a list for the page of a DAG, empty where nothing is wrong."""
    return joined((md("\n* **{}**: {}", name, problem) for name, problem in problems(configs).items()), md(""))
