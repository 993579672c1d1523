"""Telling people of alerts, and looking up advice about an application.

News are claimed in the log of alerts, told, and written down as told. Advice reads settings and the ends of logs only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.config.monitor import longest_pause
from streams_recovery.core.checks.facts import AdviceFacts
from streams_recovery.core.errors import Damaged, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.status import alerts as alerting
from streams_recovery.core.status.alerts import Alert, AlertsEntry, News
from streams_recovery.core.status.facts import advise
from streams_recovery.core.status.limits import OVER_AFTER, AlertPolicy
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.preflight import topics_as_they_are
from streams_recovery.operations.savepoint_way import savepoint_way
from streams_recovery.storage.append_log import AppendLog

LOGGER = logger("streams_recovery.operations.status.notices")

MONITOR: Final = "monitor"
_KEPT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell about one application."""

    application: str
    news: News
    finding: StatusFinding
    since: int


Tell = Callable[[Sequence[Notice]], None]


def alert_log(recovery: RecoveryContext) -> AppendLog[AlertsEntry]:
    """The log of an application's alerts."""
    return AppendLog(recovery.repository, recovery.layout.alerts, AlertsEntry)


def open_alerts(recovery: RecoveryContext) -> tuple[Alert, ...]:
    """Alerts that people know of, and those that they are about to be told of."""
    newest, before = [*itertools.islice(alert_log(recovery).readable_back(whole=False), 2), None, None][:2]
    return () if newest is None else alerting.believed(newest, before, now=recovery.clock())


def tell_news(
    recovery: RecoveryContext,
    findings: Iterable[StatusFinding],
    *,
    run: str,
    tell: Tell,
    source: str = MONITOR,
    over_after: float = OVER_AFTER,
) -> tuple[Notice, ...]:
    """Fold what ``source`` has found into the log of alerts, and tell what is new; return that. What ``tell`` raises is raised, and told by the next
    run. What was told is over when it was not found for ``over_after`` seconds.
    """
    policy, found = replace(recovery.config.monitor.policy, over_after=over_after), tuple(findings)
    return _delivered(
        recovery, run, tell, lambda before: alerting.folded(before, found, source=source, now=recovery.clock(), policy=policy)
    )


def run_ended(recovery: RecoveryContext, finding: StatusFinding | None, *, source: str, run: str, tell: Tell) -> tuple[Notice, ...]:
    """Tell that a run failed, by its ``finding``, or that what an earlier one had told is over."""
    now = AlertPolicy(severity=recovery.config.monitor.policy.severity, reminder=None, over_after=0)
    found = () if finding is None else (finding,)
    return _delivered(recovery, run, tell, lambda before: alerting.folded(before, found, source=source, now=recovery.clock(), policy=now))


def _delivered(recovery: RecoveryContext, run: str, tell: Tell, fold: Callable[[Sequence[Alert]], tuple[Alert, ...]]) -> tuple[Notice, ...]:
    if not fold(open_alerts(recovery)):
        return ()
    entry = _write(recovery, run, lambda before: alerting.claimed(fold(before), run, now=recovery.clock()))
    notices = tuple(
        Notice(application=recovery.config.name, news=alert.news, finding=alert.finding, since=alert.raised_at)
        for alert in entry.alerts
        if alert.news is not None and alert.claimed_by == run
    )
    if not notices:
        return ()
    try:
        tell(notices)
    except Exception:
        _write(recovery, run, lambda before: alerting.released(before, run))
        raise
    _write(recovery, run, lambda before: alerting.delivered(before, run, now=recovery.clock()))
    return notices


def _write(recovery: RecoveryContext, run: str, change: Callable[[Sequence[Alert]], tuple[Alert, ...]]) -> AlertsEntry:
    """Add the entry that ``change`` makes of the newest one, and keep the log short."""
    written: list[AlertsEntry] = []

    def decide(_last: AlertsEntry | None = None, _number: int = 0) -> AlertsEntry:
        # An entry that was added since is a race that this one loses, and then it is asked again.
        written.append(AlertsEntry(at=recovery.clock(), run=run, alerts=change(open_alerts(recovery))))
        return written[-1]

    log = alert_log(recovery)
    try:
        log.append_after(decide)
    except Damaged as error:
        # One strange object must not silence all alerts. Two runs at once may tell twice then.
        LOGGER.warning("the log of alerts goes on behind what cannot be read: %s", error.reason)
        log.append(decide(), whole=False)
    try:
        log.prune(_KEPT, whole=False)
    except RecoveryError as error:
        LOGGER.warning("old entries of the alerts stay: %s", error.reason)
    return written[-1]


def advice(recovery: RecoveryContext) -> tuple[StatusFinding, ...]:
    """Advice: all that makes a recovery of the application slow or impossible, the worst first. Raises what asking the cluster raises."""
    docs = recovery.config.monitor.docs
    return tuple(one.with_docs_at(docs) for one in advise(advice_facts(recovery)))


def advice_facts(recovery: RecoveryContext) -> AdviceFacts:
    """The facts that the rules of advice need."""
    config, (topics, unreadable) = recovery.config, topics_as_they_are(recovery)
    own, instances = config.application, config.runs.process.instances if config.runs.kind == "process" and config.runs.process else ()
    return AdviceFacts(
        tools=recovery.connection.tools,
        application_id=recovery.application_id,
        topics=topics,
        brokers=recovery.cluster.facts(),
        survives=config.backup.survive_cluster_loss,
        unreadable=unreadable,
        interval_seconds=longest_pause(config.backup.schedule),
        down_seconds=longest_pause(config.run.schedule),
        guarantee=own.guarantee,
        commit_interval_ms=int(own.commit_interval_seconds * 1000),
        capture_seconds=float(config.backup.consistency.timeout_seconds),
        standbys=own.standby_replicas,
        pauses=config.quiesce_mode is QuiesceMode.PAUSE,
        session_timeout_ms=own.session_timeout_ms,
        group_kind=_group_kind(recovery),
        state_directories=tuple(instance.state_directory for instance in instances),
        streams=own.streams_config,
        deletes_read=config.dialect.deletes_read,
        way=savepoint_way(recovery),
        archived_alone_seconds=config.archived_alone_seconds,
    )


def _group_kind(recovery: RecoveryContext) -> str:
    """The kind of the application's group: as it is, or as it will be."""
    found = recovery.groups.describe(recovery.application_id).kind
    return found if found != "absent" else recovery.config.application.streams_config.get("group.protocol", "classic")
