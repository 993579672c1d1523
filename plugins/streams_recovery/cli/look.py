"""The commands that only look: at settings, compatibility and evidence.

``compatible`` needs no cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from streams_recovery.cli.advice import advice as in_options
from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, FromPlace, Mode, Name, RestoreId, Savepoint, option, recovery_of
from streams_recovery.cli.screen import AsJson, line, page, print_json
from streams_recovery.core import codec
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.errors import Damaged, Refused, StoreUnsuitable
from streams_recovery.core.escaping import Markdown, joined, md
from streams_recovery.core.named_transactions.way import SavepointWay, modes_text
from streams_recovery.core.preflight.findings import PreflightFinding, blocking, in_order
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rollout.compatibility import Compatibility, CompatibilityVerdict
from streams_recovery.core.rollout.upgrade import BEFORE, DOUBT_ALLOWED, MAY_GO, STAYS_SAME, TOPOLOGY
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.core.words import LATEST, command
from streams_recovery.operations import preflight as looking
from streams_recovery.operations import restore
from streams_recovery.operations import savepoint as savepoint_steps
from streams_recovery.operations.compatibility import compatibility, described_by_program, described_in_file
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import dry_run
from streams_recovery.operations.savepoint_way import savepoint_way
from streams_recovery.operations.status.notices import advice

# Not codes of errors: what the check found.
VERDICT_CODES: Final = {
    CompatibilityVerdict.COMPATIBLE: 0,
    CompatibilityVerdict.ORPHANED: 11,
    CompatibilityVerdict.DOUBT: 15,
    CompatibilityVerdict.RENAME: 12,
    CompatibilityVerdict.LOST: 13,
}

Topology = Annotated[Path | None, option(TOPOLOGY)]
Before = Annotated[Path | None, option(BEFORE)]
Lose = Annotated[list[str] | None, option(MAY_GO)]
Same = Annotated[list[str] | None, option(STAYS_SAME)]
AllowDoubt = Annotated[bool, option(DOUBT_ALLOWED)]


def preflight(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    purpose: Annotated[Literal["backup", "restore"], typer.Option("--for", help="What is to be done.")] = "backup",
    savepoint: Annotated[str, typer.Option(help="For a restore: a savepoint's id, or `latest`.")] = LATEST,
    mode: Mode = None,
    site: Annotated[
        str | None, typer.Option("--to", metavar="SITE", help="Look at this site, before a failover to it with that savepoint.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing rights and unsafe settings. In the order in which to mend them; changes nothing. Exit code 3 when something blocks the run, 2 when the
    store or a key does.
    """
    way: SavepointWay | None = None
    modes = then = what = ""
    look_again = ["--for", purpose, *(() if mode is None else ("--mode", mode.value)), *(() if site is None else ("--to", site))]
    with recovery_of(name, configs, site) as recovery:
        if site is not None and site != recovery.sites.current():
            found = dry_run.before_failover(recovery, _savepoint(recovery, savepoint))
        elif purpose == "backup":
            found = savepoint_steps.before_savepoint(recovery, mode)
            way = savepoint_way(recovery, mode)
            modes = modes_text(recovery.config.dialect.refused, recovery.config.no_pause_because, way.missing)
            held = () if mode is None else ("--mode", mode.value)
            then = in_options(command("backup", name, *held))
            what = "a savepoint" if recovery.savepoints.ids() else "the first savepoint"
        else:
            found = dry_run.before_restore(recovery, _savepoint(recovery, savepoint))
        found = in_order((*found, *looking.of_repository(recovery)), command("preflight", name, *look_again))
    stopping = blocking(found)
    if as_json:
        shown = {} if way is None else {"way": way.shown, "modes": modes, "next": "" if stopping else then}
        print_json({"ready": not stopping, **shown, "findings": [one.shown for one in found]})
    else:
        if way is not None:
            line(f"way: {way.text}")
            line(f"modes: {modes}")
        _tell(found)
        if then and not stopping:
            line(f"Take {what}: {then}")
    if stopping:
        unsuitable = any(one.kind in (looking.STORE, looking.KEYS) for one in stopping)
        raise typer.Exit(StoreUnsuitable.exit_code if unsuitable else Refused.exit_code)


def _savepoint(recovery: RecoveryContext, savepoint: str) -> Manifest | None:
    store = recovery.savepoints
    return store.latest(read=store.outline) if savepoint == LATEST else store.outline(savepoint)


def findings_text(found: tuple[PreflightFinding, ...]) -> Markdown:
    """The findings, one a line."""
    if not found:
        return md("Nothing blocks it, and there is no warning.")
    return joined(md("- **{}**: {}", finding.severity, finding.text) for finding in found)


def _tell(found: tuple[PreflightFinding, ...]) -> None:
    for finding in found:
        line(f"{finding.severity}: {finding.text}")
        line(f"    {in_options(finding.next_step)}")
    blockers = len(blocking(found))
    line(f"{_counted(blockers, 'blocker')}, {_counted(len(found) - blockers, 'warning')}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def advise(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """Say what makes a recovery slow or impossible, with the commands that change it. Reads settings and changes nothing."""
    with recovery_of(name, configs) as recovery:
        found = advice(recovery)
    if as_json:
        print_json({"advice": found})
        return
    for finding in found:
        _print_finding(finding)
    counts = ", ".join(f"{sum(1 for one in found if one.severity is severity)} {severity}" for severity in Severity)
    line(counts if found else "There is no advice.")


def _print_finding(finding: StatusFinding) -> None:
    """Print a finding, and below it each command on a line of its own."""
    line(f"{finding.severity}: {finding.kind}: {finding.text}")
    for remedy in finding.remedies:
        line(f"    {remedy}")
    line(f"    see {finding.runbook}")


def compatible(
    name: Name,
    topology: Topology = None,
    before: Before = None,
    savepoint: Savepoint = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    lose: Lose = None,
    same: Same = None,
    *,
    allow_doubt: AllowDoubt = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a new version of an application can go on with the state of a savepoint. Reads the repository only, so it needs no cluster."""
    with recovery_of(name, configs) as recovery:
        new = described_by_program(recovery) if topology is None else described_in_file(topology)
        old = None if before is None else described_in_file(before)
        found = compatibility(recovery, new, savepoint=savepoint, before=old).accepting(lose or (), same=same or (), doubt=allow_doubt)
    if as_json:
        print_json({"verdict": found.verdict, "answer": found.answer, **codec.encode(found)})
    else:
        _print(found)
    raise typer.Exit(VERDICT_CODES[found.verdict])


def _print(found: Compatibility) -> None:
    for one in found.findings:
        line(f"{one.verdict}{' (accepted)' if one.accepted else ''}: {one.kind}: {one.text}")
        if one.remedy:
            line(f"    {one.remedy}")
    for text in found.not_compared:
        line(f"not compared: {text}")
    counts = ", ".join(f"{count} of role {role}" for role, count in found.compared.items())
    line(f"savepoint {found.savepoint_id}, topics: {counts}")
    line(found.answer)


def evidence(
    name: Annotated[
        str, typer.Argument(metavar="[APP]", help="Name of the application's configuration file; not needed with --check.")
    ] = "",
    restore_id: RestoreId = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="A copy of a report.json: check its seal instead, without any access.")
    ] = None,
    public_key: Annotated[
        list[str] | None, typer.Option("--public-key", metavar="KEY", help="With --check: whose seal is believed; several are allowed.")
    ] = None,
    place: FromPlace = None,
    as_json: AsJson = False,
) -> None:
    """Print what a restore compared, and the hashes of it. Exits with 6 unless something was compared and all of it was equal."""
    if check is not None:
        report, text = restore.checked_evidence(check, tuple(public_key or ()))
    elif name:
        with recovery_of(name, configs, place=place, lost=False) as recovery:
            report, text = restore.evidence(recovery, restore_id)
    else:
        raise typer.BadParameter("Name an application, or a file with --check.")
    if as_json:
        print_json({"verdict": report.verdict, **codec.encode(report)})
    else:
        page(text)
    if report.verdict is not restore.Verdict.EQUAL:
        raise Damaged(
            f"restore {report.restore_id}: {report.verdict}",
            next_step="this evidence proves nothing; restore again from another savepoint",
            restore=report.restore_id,
        )
