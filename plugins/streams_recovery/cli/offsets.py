"""The commands for consumer groups' offsets."""

from __future__ import annotations

import getpass
import uuid
from typing import Annotated

import typer

from streams_recovery.cli.approval import BY_HAND
from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, Name, option, print_json, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.screen import line
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.escaping import Markdown, code, joined, md, warned
from streams_recovery.core.forms import reason_field
from streams_recovery.core.offsets.snapshot import OffsetChange, RollbackPlan
from streams_recovery.core.words import moment, new_id
from streams_recovery.operations.offsets import restore_snapshot, snapshots

Snapshot = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="A snapshot's id; a savepoint's for the one taken with it.")]


@asks(without=("logs", "approve"))
def snapshot_offsets(
    call: Call,
    *,
    group: Annotated[
        list[str] | None, typer.Option(help="A group; may be repeated. Default: the application's and those of groups.include.")
    ] = None,
    reason: Annotated[str, option(reason_field("the snapshot"))] = BY_HAND,
) -> None:
    """Keep what groups have committed now, on every topic."""
    with recovery_of(call.name, call.configs) as recovery:
        wanted = group or [recovery.application_id, *snapshots.included_groups(recovery)]
        taken = snapshots.take(
            recovery,
            wanted,
            snapshot_id=new_id(recovery.clock(), uuid.uuid4().hex),
            topics=None,
            requested_by=getpass.getuser(),
            reason=reason,
        )
        if taken.unread:
            problems = "; ".join(f"{group_id}: {why}" for group_id, why in taken.unread.items())
            raise Refused(f"offsets could not be read: {problems}", next_step="nothing was kept; try again, or name other groups")
        missing = sorted(set(wanted) - {found.group_id for found in taken.groups})
        if missing:
            raise NotFound(f"groups without committed offsets: {', '.join(missing)}", next_step="nothing was kept; check the names")
        if not call.plan_only:
            snapshots.keep(recovery, taken)
    if call.as_json:
        print_json(taken)
    else:
        offsets = sum(len(found.offsets) for found in taken.groups)
        groups = ", ".join(found.group_id for found in taken.groups)
        line(f"{'would be kept' if call.plan_only else f'snapshot {taken.snapshot_id}'}: {offsets} offsets of {groups}")


def show_offsets(
    name: Name,
    snapshot: Annotated[str | None, typer.Argument(metavar="[SNAPSHOT]", help="Without one, all are listed.")] = None,
    configs: Configs = DEFAULT_CONFIGS,
) -> None:
    """Print a snapshot as JSON, or the ids of all, newest last."""
    with recovery_of(name, configs) as recovery:
        print_json(snapshots.ids(recovery) if snapshot is None else snapshots.find(recovery, snapshot))


@asks(without=("logs",))
def restore_offsets(
    call: Call,
    snapshot: Snapshot,
    *,
    group: Annotated[str | None, typer.Option(help="The group that goes back. Default: the application's.")] = None,
) -> None:
    """Take a group's offsets back to a snapshot. Nobody may be in the group. Shows the plan and asks first."""
    with recovery_of(call.name, call.configs) as recovery:
        group_id = group or recovery.application_id
        planned = restore_snapshot.plan(recovery, snapshot, group_id)
        if not call.agreed(planned, _text(planned), typed=recovery.application_id):
            return
        run = requester()
        done = restore_snapshot.carry_out(
            recovery, snapshot, group_id, approved_hash=planned.hash, run_id=run.run_id, requested_by=run.requested_by
        )
    if call.as_json:
        print_json(done)
    else:
        line(f"{done.moved} of {done.partitions} offsets of {done.group_id} went back; what was there is snapshot {done.before}")


def _text(planned: RollbackPlan) -> Markdown:
    return joined(
        [
            md("### Group {} back to snapshot {}", code(planned.group_id), code(planned.snapshot_id)),
            md(""),
            md("Taken **{}**. Plan {}.", moment(planned.taken_at), code(planned.hash)),
            md(""),
            *warned(planned.warnings),
            md("{} of {} offsets move:", planned.moving, len(planned.changes)),
            md(""),
            md("| partition | before | after |"),
            md("|---|---:|---:|"),
            *(md("| {} | {} | {} |", *change_cells(change)) for change in planned.changes if not change.same),
        ]
    )


def change_cells(change: OffsetChange) -> tuple[object, object, object]:
    """The cells of a change in a plan: partition, offset before and offset after."""
    before = "-" if change.before is None else change.before
    return change.tp, before, "deleted" if change.after is None else change.after.offset
