"""Findings of a preflight check."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from streams_recovery.core.errors import Refused


class PreflightSeverity(enum.StrEnum):
    """``blocking``: the run would fail or do harm. ``warning``: the run would work, but a person should know."""

    BLOCKING = "blocking"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFinding:
    """One finding and what to do about it. ``kind`` is a word that scripts can compare. With ``is_command`` the ``remedy`` is a complete command."""

    severity: PreflightSeverity
    kind: str
    text: str
    remedy: str
    is_command: bool = False

    def __str__(self) -> str:
        return f"{self.text}: {self.remedy}"


def blocking(findings: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """The blocking findings."""
    return tuple(found for found in findings if found.severity is PreflightSeverity.BLOCKING)


def required(findings: Iterable[PreflightFinding], doing: str, *, look_again: Iterable[str] = ()) -> tuple[str, ...]:
    """The warnings as texts. Raises ``Refused`` with all blocking findings at once. ``doing`` is the start of the sentence "... cannot begin".
    ``look_again`` is the command that shows what is left, where there is one.
    """
    findings = tuple(findings)
    stopping = blocking(findings)
    if stopping:
        raise Refused(
            f"{doing} cannot begin, nothing was changed. "
            + " ".join(f"({at}) {found.text if found.is_command else found}." for at, found in enumerate(stopping, 1)),
            next_step="correct all of it, then run again",
            kinds=[found.kind for found in stopping],
            findings=[str(found) for found in stopping],
        ).then(*(found.remedy for found in stopping if found.is_command), *look_again)
    return tuple(str(found) for found in findings)


def warning(kind: str, text: str, remedy: str) -> PreflightFinding:
    """A finding that only warns."""
    return PreflightFinding(severity=PreflightSeverity.WARNING, kind=kind, text=text, remedy=remedy)


def blocking_finding(kind: str, text: str, remedy: str) -> PreflightFinding:
    """A finding that blocks."""
    return PreflightFinding(severity=PreflightSeverity.BLOCKING, kind=kind, text=text, remedy=remedy)
