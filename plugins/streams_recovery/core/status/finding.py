"""What a look at an application has found wrong, or about to go wrong, with what to do about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace


class Severity(enum.StrEnum):
    """``critical``: a recovery is impossible, or state is being lost. ``warning``: it soon will be, or an objective is missed. ``info``: slower or
    weaker than it could be.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFinding:
    """One finding. ``kind`` is a word that scripts compare, and names its section in docs/runbooks or docs/alerts.md. ``subject`` is what it is about, such
    as a topic, empty for the application itself: kind and subject together are the cause, of which people hear once. ``remedies`` are commands, complete
    and ready to copy, of this software or of Kafka. ``numbers`` are the measured values and limits in plain units (seconds, bytes, records).
    ``runbook`` is the section about it, below docs/ until ``with_docs_at``.
    """

    kind: str
    severity: Severity
    subject: str
    text: str
    remedies: tuple[str, ...]
    runbook: str
    numbers: dict[str, float]

    @property
    def cause(self) -> str:
        """Identifies the cause, for as long as it lasts."""
        return f"{self.kind}:{self.subject}" if self.subject else self.kind

    def with_docs_at(self, docs: str) -> StatusFinding:
        """The same with the whole address of its section. ``docs`` is where docs/ can be read."""
        return replace(self, runbook=f"{docs.rstrip('/')}/{self.runbook}")
