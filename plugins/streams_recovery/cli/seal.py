"""The commands of sealed repositories: keys, and records that are older than the seals."""

from __future__ import annotations

import getpass
import os
import uuid
from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli.approval import Approve, PlanOnly, approved, reason_of, show_plan, without_reason
from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Name, option, print_json, recovery_of
from streams_recovery.cli.screen import line, say
from streams_recovery.core.errors import Refused
from streams_recovery.core.escaping import code, md
from streams_recovery.core.forms import reason_field
from streams_recovery.operations import maintenance


def seal(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    reason: Annotated[str, option(reason_field("the adoption"))] = "",
    *,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Vouch for the records of a repository that are older than its seals. Shows them and asks first."""
    with recovery_of(name, configs) as recovery:
        planned = maintenance.plan_adoption(recovery)
        text = md("{}\n\nPlan {}.", planned.text, code(planned.hash[:12]))
        why = reason_of(reason, plan_only=plan_only)
        if plan_only:
            show_plan(planned, text, as_json=as_json, more=without_reason(reason))
            return
        approved(planned, text, approve, typed=recovery.application_id)
        done = maintenance.adopt(
            recovery, run_id=f"cli-{uuid.uuid4().hex}", requested_by=getpass.getuser(), reason=why, approved=planned.hash
        )
    if as_json:
        print_json({"adopted": len(done.records), "refused": list(done.refused), "too_large": list(done.too_large)})
        return
    line(f"{len(done.records):,} records are vouched for, {len(done.refused) + len(done.too_large)} were not adopted")
    for left in (*done.refused, *done.too_large):
        say(left)


def seal_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the private key. It must not exist.")],
) -> None:
    """Make a pair of keys for `storage.seal`: the private one into a file that only you can read, the public one printed."""
    # Only here: everything else of the command line works where the library is missing.
    from streams_recovery.storage.seals import new_private_key  # noqa: PLC0415

    private, public = new_private_key()
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(f"{file} exists", next_step="nothing was written; name a file that does not exist", path=str(file)) from None
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}", next_step="name another file", path=str(file)) from None
    with os.fdopen(handle, "w") as written:
        written.write(f"{private}\n")
        written.flush()
        os.fsync(written.fileno())
    say(f"The private key is in {file}. Keep a copy of it where the repository is not: without it nothing can be added to the repository")
    line(public)
