"""Findings before a run: what blocks it, and what a person should know."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.checks.check import CheckPlace, Found, Severity
from streams_recovery.core.errors import RecoveryError, Refused
from streams_recovery.core.remedies.remedy import Remedy, as_refused
from streams_recovery.core.words import first_names


class PreflightSeverity(enum.StrEnum):
    """``blocking``: the run would fail or do harm. ``warning``: the run would work, but a person should know."""

    BLOCKING = "blocking"
    WARNING = "warning"


class Stage(enum.IntEnum):
    """What a finding is about, in the order in which people mend things: what is seen later may depend on what was mended before. A cluster that does not
    answer comes before all of these, and ends the look.
    """

    RIGHTS = 1
    CONFIGURATION = 2
    TOPICS = 3
    APPLICATION = 4
    STORAGE = 5
    PLAN = 6


_KINDS: Final[Mapping[Stage, tuple[str, ...]]] = {
    Stage.RIGHTS: ("acl", "kubernetes-right"),
    Stage.CONFIGURATION: (
        "spark",
        "hold",
        "savepoint-way",
        "guarantee",
        "include",
        "state-not-wipeable",
        "local-state",
        "unattributed",
        "cluster-loss",
        "archive-one-place",
    ),
    Stage.TOPICS: (
        "topics",
        "state",
        "partitions",
        "inputs",
        "durability",
        "timestamps",
        "auto.create.topics.enable",
        "replication",
        "min-insync",
        "outputs-empty",
        "replaces",
    ),
    Stage.APPLICATION: (
        "site",
        "unfinished",
        "managed-elsewhere",
        "autoscaler",
        "update-held",
        "instances",
        "unseen-end",
        "transaction-hanging",
        "group-trap",
        "outputs-transferred",
        "outputs",
        "unread-input",
    ),
    Stage.STORAGE: ("store", "keys", "space", "repository", "not-sealed"),
    Stage.PLAN: ("label", "plan"),
}
STAGES: Final[Mapping[str, Stage]] = {kind: stage for stage, kinds in _KINDS.items() for kind in kinds}
_PLACE: Final = {kind: at for at, kind in enumerate(STAGES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFinding:
    """One finding and what to do about it. ``kind`` is a word that scripts can compare. Where the remedy has a command or a setting, the ``text`` ends with its
    words.
    """

    severity: PreflightSeverity
    kind: str
    text: str
    remedy: Remedy

    @property
    def is_command(self) -> bool:
        """True where ``next_step`` is a complete command."""
        return bool(self.remedy.commands)

    @property
    def next_step(self) -> str:
        """What to do: the command or the line of YAML where there is one, or else the words."""
        return self.remedy.step or self.remedy.text

    @property
    def shown(self) -> dict[str, object]:
        """The finding for scripts."""
        return {
            "severity": self.severity.value,
            "kind": self.kind,
            "stage": STAGES[self.kind].name.lower(),
            "text": self.text,
            "remedy": self.next_step,
            "is_command": self.is_command,
        }

    def __str__(self) -> str:
        return f"{self.text}: {self.next_step}"


def blocking(findings: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """The blocking findings."""
    return tuple(found for found in findings if found.severity is PreflightSeverity.BLOCKING)


def in_order(findings: Iterable[PreflightFinding], look_again: str) -> tuple[PreflightFinding, ...]:
    """What blocks comes first, and all of it in the order in which it is mended. A blocker whose remedy is neither a command nor a setting ends with
    ``look_again``, the command that shows whether it is mended.
    """
    ordered = sorted(findings, key=lambda one: (one.severity is not PreflightSeverity.BLOCKING, _PLACE[one.kind]))
    return tuple(one if one.remedy.step or not blocking((one,)) else _looked_at_again(one, look_again) for one in ordered)


def _looked_at_again(found: PreflightFinding, look_again: str) -> PreflightFinding:
    remedy = replace(found.remedy, commands=(look_again,))
    return replace(found, text=worded(found.text, remedy), remedy=remedy)


def worded(text: str, remedy: Remedy) -> str:
    """The text of a finding, with the words of a remedy that is shown as a command or a setting."""
    return f"{text}. {remedy.sentence}" if remedy.step else text


def required(findings: Iterable[PreflightFinding], doing: str, *, look_again: Iterable[str] = ()) -> tuple[str, ...]:
    """The warnings as texts. Raises ``Refused`` with all blocking findings at once. ``doing`` is the start of the sentence "... cannot begin".
    ``look_again`` is the command that shows what is left, where there is one.
    """
    findings = tuple(findings)
    stopping = blocking(findings)
    if stopping:
        stopping = tuple(sorted(stopping, key=lambda one: _PLACE[one.kind]))
        raise Refused(
            f"{doing} cannot begin, nothing was changed. "
            + " ".join(f"({at}) {found.text if found.remedy.step else found}." for at, found in enumerate(stopping, 1)),
            next_step="correct all of it, then run again",
            kinds=[found.kind for found in stopping],
            findings=[str(found) for found in stopping],
        ).then(*dict.fromkeys(found.next_step for found in stopping if found.is_command), *look_again)
    return tuple(str(found) for found in findings)


def warning(kind: str, text: str, remedy: Remedy) -> PreflightFinding:
    """A finding that only warns. ``text`` has no words of the remedy."""
    return PreflightFinding(severity=PreflightSeverity.WARNING, kind=kind, text=worded(text, remedy), remedy=remedy)


def blocking_finding(kind: str, text: str, remedy: Remedy) -> PreflightFinding:
    """A finding that blocks. ``text`` has no words of the remedy."""
    return PreflightFinding(severity=PreflightSeverity.BLOCKING, kind=kind, text=worded(text, remedy), remedy=remedy)


def as_findings(answers: Iterable[tuple[CheckPlace, Found]]) -> tuple[PreflightFinding, ...]:
    """Answers of checks as findings, one for all topics with the same answer. An answer that is only ``info`` is left out."""
    found: dict[tuple[str, Severity, str, Remedy | None], list[str]] = {}
    for place, one in answers:
        if one.severity is not Severity.INFO:
            found.setdefault((place.kind, one.severity, one.text, one.remedy), []).append(one.topic)
    return tuple(_one(*said, topics) for said, topics in found.items())


def _one(kind: str, severity: Severity, text: str, remedy: Remedy | None, topics: list[str]) -> PreflightFinding:
    if remedy is None:
        raise ValueError(f"a check that is asked before a run must say what to do: {kind}")
    text = f"{first_names(topics)} {text}" if any(topics) else text
    return (blocking_finding if severity is Severity.CRITICAL else warning)(kind, text, remedy)


def refused(kind: str, error: RecoveryError) -> PreflightFinding:
    """A finding that blocks, of what was asked as the run would ask it."""
    return blocking_finding(
        kind, error.reason, as_refused(error.next_step, *error.commands[:1], setting=str(error.facts.get("setting", "")))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    """``application_id`` is that of the target, and ``group_kind`` the kind of its group as it is now."""

    application_id: str
    group_kind: str
