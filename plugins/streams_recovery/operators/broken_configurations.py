"""Telling people of configurations that cannot be used: an application's own notifiers and its log of alerts may be out of reach then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk import BaseOperator, Context, Variable
from airflow.sdk.observability.stats import Stats

from streams_recovery.config.directory import broken_configurations, broken_notifiers, load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid, RecoveryError
from streams_recovery.core.status import metrics
from streams_recovery.core.status.alerts import News
from streams_recovery.core.status.run_findings import configuration_broken
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations import status
from streams_recovery.operations.context import wall_clock
from streams_recovery.operators.notifications import tell_by, tell_through

_SOURCE: Final = "configurations"
# Who told of which configuration: the same one tells that it is over.
_VARIABLE: Final = "streams_recovery_broken_configurations"

Tellers = dict[str, str]


class CheckConfigurationsOperator(Logged, BaseOperator):
    """Tell of configurations that cannot be used, and when they can be again. The first application that has notifiers tells. Where none has, each is told
    through the notifiers in its own file, as far as these can be read.
    """

    def execute(self, context: Context) -> None:
        """Check. Raises the first of what could not be told, once all else is."""
        broken, configs = broken_configurations(), load_applications()
        Stats.gauge(metrics.metric("broken_configurations"), len(broken))
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


def _able(configs: Mapping[str, ApplicationConfig]) -> list[str]:
    return sorted(name for name, config in configs.items() if config.monitor.notify)


def _tellers(known: Tellers, broken: Mapping[str, ConfigInvalid], configs: Mapping[str, ApplicationConfig]) -> Tellers:
    """Who tells of each configuration that is, or was, broken: who told of it first, as long as there is a file of that name."""
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
        status.tell_news(
            recovery, findings.values(), run=f"{_SOURCE} {context['run_id']}", tell=tell_through(teller, context), source=_SOURCE
        )
        return [one.finding.subject for one in status.open_alerts(recovery) if one.source == _SOURCE]


def _notify_by_itself(
    name: str, known: Tellers, broken: Mapping[str, ConfigInvalid], configs: Mapping[str, ApplicationConfig], context: Context
) -> bool:
    """Whether people know that it is broken, once what is new of that is told."""
    if name in broken and name in known:
        return True
    notifiers = broken_notifiers(name) if name in broken else configs[name].monitor.notify
    if not notifiers:
        return False
    finding = configuration_broken(name, broken[name].reason if name in broken else "it can be used again", docs="docs")
    news = News.RAISED if name in broken else News.OVER
    tell_by(notifiers, context)([status.Notice(application=name, news=news, finding=finding, since=wall_clock())])
    return name in broken


def _remembered() -> Tellers:
    try:
        found: Any = json.loads(Variable.get(_VARIABLE, default=None) or "{}")
    except ValueError:
        return {}
    return {str(name): str(teller) for name, teller in found.items()} if isinstance(found, dict) else {}


def _remember(before: Tellers, after: Tellers) -> None:
    if after and after != before:
        Variable.set(_VARIABLE, json.dumps(after, sort_keys=True))
    elif before and not after:
        Variable.delete(_VARIABLE)
