"""The commands for consumer groups' offsets."""

from __future__ import annotations

import getpass
import uuid
from typing import Annotated

import typer

from streams_recovery.cli.approval import BY_HAND
from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, Name, option, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.screen import line, print_json
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.escaping import Markdown, code, joined, md, warned
from streams_recovery.core.forms import reason_field
from streams_recovery.core.offsets.group_changes import GroupAction, GroupChangePlan, GroupRequest
from streams_recovery.core.offsets.snapshot import OffsetChange
from streams_recovery.core.words import new_id
from streams_recovery.operations.offsets import group_changes, snapshots

_TITLES = {
    GroupAction.RESET: "Reset the offsets of",
    GroupAction.DELETE_OFFSETS: "Delete offsets of",
    GroupAction.DELETE: "Delete",
    GroupAction.ROLLBACK: "Take back to a snapshot the offsets of",
}

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
        request = GroupRequest(action=GroupAction.ROLLBACK, groups=(group_id,), snapshot=snapshot)
        planned = group_changes.plan(recovery, request)
        if not call.agreed(planned, plan_text(planned), typed=recovery.application_id):
            return
        run = requester()
        done = group_changes.carry_out(recovery, request, approved_hash=planned.hash, run_id=run.run_id, requested_by=run.requested_by)
    moved, partitions = done.moved[group_id], len(planned.groups[0].changes)
    if call.as_json:
        print_json({"group_id": group_id, "snapshot_id": snapshot, "before": done.before, "partitions": partitions, "moved": moved})
    else:
        before = "" if done.before is None else f"; what was there is snapshot {done.before}"
        line(f"{moved} of {partitions} offsets of {group_id} went back{before}")


def plan_text(planned: GroupChangePlan) -> Markdown:
    """A change of groups for a person."""
    moving = sum(len(group.moving) for group in planned.groups)
    staying = sum(len(group.changes) for group in planned.groups) - moving
    what = {
        GroupAction.RESET: md("{} offsets change. {} stay as they are, with their metadata.", moving, staying),
        GroupAction.DELETE_OFFSETS: md("{} offsets are deleted:", moving),
        GroupAction.DELETE: md("The groups are deleted with {} offsets:", moving),
        GroupAction.ROLLBACK: md("{} of {} offsets move:", moving, moving + staying),
    }[planned.action]
    return joined(
        [
            md("### {} {}", _TITLES[planned.action], joined([code(group.group_id) for group in planned.groups], md(", "))),
            md(""),
            md("Plan {}{}", code(planned.hash), md(", for {}", code(planned.what)) if planned.what else md("")),
            md(""),
            *warned(planned.warnings),
            what,
            md(""),
            md("| group | partition | before | after |"),
            md("|---|---|---:|---:|"),
            *(md("| {} | {} | {} | {} |", group.group_id, *_cells(change)) for group in planned.groups for change in group.moving),
        ]
    )


def _cells(change: OffsetChange) -> tuple[object, object, object]:
    before = "-" if change.before is None else change.before
    return change.tp, before, "deleted" if change.after is None else change.after.offset
