"""The command that shows the evidence of a restore."""

from __future__ import annotations

from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Name, print_json, recovery_of
from streams_recovery.cli.screen import page as print_page
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.operations import restore


def evidence(
    name: Name,
    restore_id: Annotated[str, typer.Argument(metavar="[RESTORE]", help="A restore's id, or `latest`.")] = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    as_json: AsJson = False,
) -> None:
    """Print what a restore compared, and the hashes of it. Exits with 6 unless something was compared and all of it was equal."""
    with recovery_of(name, configs) as recovery:
        report, page = restore.evidence(recovery, restore_id)
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
