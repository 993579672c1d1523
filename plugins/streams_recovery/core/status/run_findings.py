"""Findings that no rule makes: of runs that failed, of configurations that cannot be used, of the monitor itself."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.status.facts import finding
from streams_recovery.core.status.report import StatusFinding

RUN_FAILED: Final = "run-failed"
BROKEN: Final = "configuration-broken"
MONITOR_FAILED: Final = "monitor-failed"
KINDS: Final = (RUN_FAILED, BROKEN, MONITOR_FAILED)


def run_failed(dag_id: str, run_id: str, reason: str, *, docs: str) -> StatusFinding:
    """A run of one of our DAGs has failed. It is over when a later one succeeds. ``docs`` is where the pages on findings are."""
    return finding(RUN_FAILED, Severity.CRITICAL, f"run {run_id} of {dag_id} failed: {reason}", subject=dag_id).with_docs_at(docs)


def configuration_broken(name: str, problem: str, *, docs: str) -> StatusFinding:
    """A configuration cannot be used, so nothing is done for its application."""
    text = f"the configuration of {name} cannot be used, so no savepoint of it is taken: {problem}"
    return finding(BROKEN, Severity.CRITICAL, text, subject=name).with_docs_at(docs)


def monitor_failed(name: str, problem: str, *, docs: str) -> StatusFinding:
    """The monitor could not store what it has seen: no other finding would be told."""
    return finding(MONITOR_FAILED, Severity.CRITICAL, f"the monitor of {name} failed: {problem}").with_docs_at(docs)
