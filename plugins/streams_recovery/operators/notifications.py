"""Alerts through the notifiers of Airflow that an application's configuration names."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from airflow.sdk import BaseNotifier

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.monitor import Notify
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, TransientError
from streams_recovery.core.escaping import Markdown, joined, logger, md, visible
from streams_recovery.core.status.alerts import News
from streams_recovery.operations.status import Notice, Tell

LOGGER = logger("streams_recovery.operators.notifications")
_TITLES = {News.RAISED: "", News.REMINDER: "still: ", News.OVER: "over: "}


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
    """What is wrong with the notifiers of each application, by its name."""
    found = {}
    for name, config in configs.items():
        for notify in config.monitor.notify:
            try:
                notifier_class(notify.notifier)
            except ConfigInvalid as error:
                found[name] = error.reason
    return found


def problems_text(configs: Mapping[str, ApplicationConfig]) -> Markdown:
    """The same as a list for the page of a DAG, empty where nothing is wrong."""
    return joined((md("\n* **{}**: {}", name, problem) for name, problem in problems(configs).items()), md(""))


def tell_through(config: ApplicationConfig, context: Mapping[str, Any]) -> Tell:
    """Tells what is new through each notifier of the application."""
    return tell_by(config.monitor.notify, context)


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
    """What templates see as ``alert``: each text on one line, without characters that control how a message is shown."""
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
    """One line that says it all."""
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
