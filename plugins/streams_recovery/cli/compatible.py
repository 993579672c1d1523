"""The command that says whether a new version goes on with what a savepoint has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Name, Savepoint, option, print_json, recovery_of
from streams_recovery.cli.screen import line
from streams_recovery.core import codec
from streams_recovery.core.rollout.compatibility import Compatibility, CompatibilityVerdict
from streams_recovery.core.rollout.upgrade import BEFORE, MAY_GO, STAYS_SAME, TOPOLOGY
from streams_recovery.operations.compatibility import compatibility, described_by_program, described_in_file

# Not codes of errors: what the check found.
VERDICT_CODES: Final = {
    CompatibilityVerdict.COMPATIBLE: 0,
    CompatibilityVerdict.ORPHANED: 11,
    CompatibilityVerdict.RENAME: 12,
    CompatibilityVerdict.LOST: 13,
}

Topology = Annotated[Path | None, option(TOPOLOGY, metavar="FILE")]
Before = Annotated[Path | None, option(BEFORE, metavar="FILE")]
Lose = Annotated[list[str] | None, option(MAY_GO, metavar="NAME")]
Same = Annotated[list[str] | None, option(STAYS_SAME, metavar="NAME")]


def compatible(
    name: Name,
    topology: Topology = None,
    before: Before = None,
    savepoint: Savepoint = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    lose: Lose = None,
    same: Same = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Say whether a new version of an application can go on with the state of a savepoint. Reads the repository only, so it needs no cluster."""
    with recovery_of(name, configs) as recovery:
        new = described_by_program(recovery) if topology is None else described_in_file(topology)
        old = None if before is None else described_in_file(before)
        found = compatibility(recovery, new, savepoint=savepoint, before=old).accepting(lose or (), same=same or ())
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
