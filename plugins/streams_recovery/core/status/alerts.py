"""Alerts: people are told of each cause once when it is found, and once when it is over. Pure: the log of alerts is the memory.

A run claims the news first, in an entry of the log that only one run can write. It tells them, and writes down that it has. So two runs at once do not tell
twice. The news of a run that died are told by a later one, twice at worst.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.status.limits import MOST_SILENT, AlertPolicy
from streams_recovery.core.status.report import StatusFinding

# Seconds after which a run that was to tell something counts as dead.
CLAIM_SECONDS: Final = 600.0


class News(enum.StrEnum):
    """News of an alert, to be told to people."""

    RAISED = "raised"
    REMINDER = "reminder"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One cause that lasts. ``source`` is the part of this software that found it: only that part may end it. ``finding`` is as it was found last, at
    ``seen_at`` (ms). ``news`` was not sent yet, None when all was sent, and ``claimed_by`` is the run that is sending it since ``claimed_at``. ``delivered_at``
    and ``delivered_severity`` are of the last time that people heard of it, None when they have not.
    """

    source: str
    finding: StatusFinding
    raised_at: int
    seen_at: int
    news: News | None
    claimed_by: str | None
    claimed_at: int | None
    delivered_at: int | None
    delivered_severity: Severity | None

    @property
    def cause(self) -> str:
        return self.finding.cause

    def claimed(self, now: int) -> bool:
        """True while a run is telling it."""
        return self.claimed_at is not None and abs(now - self.claimed_at) < CLAIM_SECONDS * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsEntry:
    """One entry of the log of alerts; only the newest counts."""

    at: int
    run: str
    alerts: tuple[Alert, ...]


def believed(newest: AlertsEntry, before: AlertsEntry | None, *, now: int) -> tuple[Alert, ...]:
    """The alerts of the newest entry that the entry ``before`` it and the clock confirm. A delivered alert is believed only if the entry before also says that
    it was delivered, or that the same run had claimed its news. An alert that is left out is found and told as a new one, so one forged entry silences nothing.
    """
    known = {(alert.source, alert.cause): alert for alert in before.alerts} if before is not None else {}
    return tuple(
        alert
        for alert in newest.alerts
        if _is_possible(alert, now) and _is_borne_out(alert, known.get((alert.source, alert.cause)), newest.run)
    )


def _is_possible(alert: Alert, now: int) -> bool:
    times = [at for at in (alert.raised_at, alert.seen_at, alert.claimed_at, alert.delivered_at) if at is not None]
    return (
        min(times) >= 0
        and max(times) <= now + CLAIM_SECONDS * 1000
        and (alert.claimed_at is None) == (alert.claimed_by is None)
        and (alert.delivered_at is None) == (alert.delivered_severity is None)
        and (alert.news is not None or (alert.delivered_at is not None and alert.claimed_by is None))
    )


def _is_borne_out(alert: Alert, before: Alert | None, run: str) -> bool:
    if alert.delivered_at is None:
        return True
    if before is None:
        return False
    if (before.delivered_at, before.delivered_severity) == (alert.delivered_at, alert.delivered_severity):
        return True
    return before.news is not None and before.claimed_by == run and (before.claimed_at or 0) <= alert.delivered_at


def folded(before: Sequence[Alert], findings: Iterable[StatusFinding], *, source: str, now: int, policy: AlertPolicy) -> tuple[Alert, ...]:
    """The alerts after ``source`` has found these. Alerts of other sources stay as they are."""
    found = {one.cause: one for one in findings if one.severity.rank <= policy.severity.rank}
    others = [alert for alert in before if alert.source != source]
    known = {alert.cause: alert for alert in before if alert.source == source}
    lasting = [_found_again(alert, found[cause], now, policy) for cause, alert in known.items() if cause in found]
    ending = [_not_found(alert, now, policy) for cause, alert in known.items() if cause not in found]
    new = [_new(finding, source, now) for cause, finding in found.items() if cause not in known]
    return (*others, *lasting, *(alert for alert in ending if alert is not None), *new)


def claimed(alerts: Iterable[Alert], run: str, *, now: int) -> tuple[Alert, ...]:
    """All alerts; ``run`` claims the news that no other run is sending."""
    return tuple(
        replace(alert, claimed_by=run, claimed_at=now) if alert.news is not None and not alert.claimed(now) else alert for alert in alerts
    )


def delivered(alerts: Iterable[Alert], run: str, *, now: int) -> tuple[Alert, ...]:
    """The alerts after ``run`` has sent the news that it had claimed. Alerts that are over are gone."""
    mine = [(alert, alert.news is not None and alert.claimed_by == run) for alert in alerts]
    return tuple(_delivered(alert, now) if own else alert for alert, own in mine if not (own and alert.news is News.OVER))


def released(alerts: Iterable[Alert], run: str) -> tuple[Alert, ...]:
    """The alerts after ``run`` could not tell what it had claimed: the next one tries again."""
    return tuple(replace(alert, claimed_by=None, claimed_at=None) if alert.claimed_by == run else alert for alert in alerts)


def _new(finding: StatusFinding, source: str, now: int) -> Alert:
    return Alert(
        source=source,
        finding=finding,
        raised_at=now,
        seen_at=now,
        news=News.RAISED,
        claimed_by=None,
        claimed_at=None,
        delivered_at=None,
        delivered_severity=None,
    )


def _found_again(alert: Alert, finding: StatusFinding, now: int, policy: AlertPolicy) -> Alert:
    seen = replace(alert, finding=finding, seen_at=now)
    if alert.claimed(now) and alert.news is not None:
        return seen
    if alert.news is News.OVER:
        # It came back before anybody heard that it was over; whether a run that died has told that, or that it began, is unknown.
        return _with_news(seen, None if alert.claimed_by is None and alert.delivered_at is not None else News.RAISED)
    worse = alert.delivered_severity is not None and finding.severity.rank < alert.delivered_severity.rank
    if alert.news is None and worse:
        return _with_news(seen, News.RAISED)
    again = min(MOST_SILENT, policy.reminder if policy.reminder is not None else MOST_SILENT)
    due = alert.delivered_at is not None and now - alert.delivered_at >= again * 1000
    return _with_news(seen, News.REMINDER) if alert.news is None and due else seen


def _not_found(alert: Alert, now: int, policy: AlertPolicy) -> Alert | None:
    if now - alert.seen_at < policy.over_after * 1000 or alert.news is News.OVER or (alert.claimed(now) and alert.news is not None):
        return alert
    if alert.news is News.RAISED and alert.delivered_at is None and alert.claimed_by is None:
        return None
    return _with_news(alert, News.OVER)


def _with_news(alert: Alert, news: News | None) -> Alert:
    return replace(alert, news=news, claimed_by=None, claimed_at=None)


def _delivered(alert: Alert, now: int) -> Alert:
    return replace(_with_news(alert, None), delivered_at=now, delivered_severity=alert.finding.severity)
