"""The command that shows the evidence of a restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, RestoreId, print_json, recovery_of
from streams_recovery.cli.screen import page as print_page
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.operations import restore


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
    as_json: AsJson = False,
) -> None:
    """Print what a restore compared, and the hashes of it. Exits with 6 unless something was compared and all of it was equal."""
    if check is not None:
        report, page = restore.checked_evidence(check, tuple(public_key or ()))
    elif name:
        with recovery_of(name, configs) as recovery:
            report, page = restore.evidence(recovery, restore_id)
    else:
        raise typer.BadParameter("Name an application, or a file with --check.")
    if as_json:
        print_json({"verdict": report.verdict, **codec.encode(report)})
    else:
        print_page(page)
    if report.verdict is not restore.Verdict.EQUAL:
        raise Damaged(
            f"restore {report.restore_id}: {report.verdict}",
            next_step="this evidence proves nothing; restore again from another savepoint",
            restore=report.restore_id,
        )
