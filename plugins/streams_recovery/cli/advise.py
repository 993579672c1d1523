"""The command that says what makes a recovery slow or impossible."""

from __future__ import annotations

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Name, print_json, recovery_of
from streams_recovery.cli.screen import line
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.operations.status.advise import advice


def advise(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """Say what makes a recovery slow or impossible, with the commands that change it. Reads settings and changes nothing."""
    with recovery_of(name, configs) as recovery:
        found = advice(recovery)
    if as_json:
        print_json({"advice": found})
        return
    for finding in found:
        print_finding(finding)
    counts = ", ".join(f"{sum(1 for one in found if one.severity is severity)} {severity}" for severity in Severity)
    line(counts if found else "There is no advice.")


def print_finding(finding: StatusFinding) -> None:
    """One finding, and below it each command on a line of its own."""
    line(f"{finding.severity}: {finding.kind}: {finding.text}")
    for remedy in finding.remedies:
        line(f"    {remedy}")
    line(f"    see {finding.runbook}")
