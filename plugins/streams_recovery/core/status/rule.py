"""A rule judges what was seen. Each has a file in ``rules``; what a person needs to know of its findings is in docs/alerts.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.report import Health

_ORDER = list(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """``kinds`` of findings that it makes, and the ``parts`` that must have been seen for it. While one of them is not, its findings of the last look
    stay: nobody knows that they are over. ``stays`` says the same of a single finding, whose subject was not seen though the part was.
    """

    kinds: tuple[str, ...]
    parts: tuple[PartName, ...] = ()
    find: Callable[[ObservedApplication, Limits], Iterable[StatusFinding]]
    stays: Callable[[ObservedApplication, StatusFinding], bool] = lambda _observed, _finding: False


def finding(
    kind: str,
    severity: Severity,
    text: str,
    *,
    subject: str = "",
    remedies: Sequence[str] = (),
    numbers: dict[str, float] | None = None,
) -> StatusFinding:
    """One finding; its page is the section of its kind."""
    return StatusFinding(
        kind=kind,
        severity=severity,
        subject=subject,
        text=text,
        remedies=tuple(remedies),
        runbook=f"alerts.md#{kind}",
        numbers=numbers or {},
    )


def judge(
    rules: Iterable[Rule], observed: ObservedApplication, limits: Limits, earlier: Sequence[StatusFinding] = ()
) -> tuple[StatusFinding, ...]:
    """What the rules find, the worst first. ``earlier`` are the findings of the last look."""
    found: list[StatusFinding] = []
    for rule in rules:
        if any(_unseen(observed, part) for part in rule.parts):
            found += [one for one in earlier if one.kind in rule.kinds]
        else:
            new = [one.with_docs_at(limits.docs) for one in rule.find(observed, limits)]
            causes = {one.cause for one in new}
            found += new
            found += [one for one in earlier if one.kind in rule.kinds and one.cause not in causes and rule.stays(observed, one)]
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.severity), one.kind, one.subject)))


def health(findings: Iterable[StatusFinding], parts: Iterable[int | None]) -> Health:
    """The worst of what was found; ``parts`` are the moments at which each part was last seen."""
    severities = {one.severity for one in findings}
    if Severity.CRITICAL in severities:
        return Health.TROUBLE
    if all(moment is None for moment in parts):
        return Health.UNKNOWN
    return Health.ATTENTION if Severity.WARNING in severities else Health.GOOD


def _unseen(observed: ObservedApplication, part: PartName) -> bool:
    return getattr(observed, part.value) is None
