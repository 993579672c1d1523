"""The commands for the consumer groups of the cluster: what Kafka's own group tools do, with a plan before and a snapshot to go back to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, Name, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.offsets import plan_text
from streams_recovery.cli.screen import AsJson, data, line, print_json, say_command
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import ListedGroup, TopicPartition
from streams_recovery.core.offsets import reset_options
from streams_recovery.core.offsets.given_offsets import MAX_FILE_BYTES, csv_text
from streams_recovery.core.offsets.group_changes import (
    GroupAction,
    GroupChangeDone,
    GroupRequest,
    PartitionScope,
)
from streams_recovery.core.offsets.reset_options import FromFile
from streams_recovery.core.offsets.strategies import Strategy
from streams_recovery.core.status.look import GroupLag, PartitionLag
from streams_recovery.core.words import command
from streams_recovery.operations.offsets import group_changes
from streams_recovery.operations.status.cluster import look_at_group

Group = Annotated[list[str] | None, typer.Option("--group", metavar="G", help="A group; may be repeated. Default: the application's own.")]
AllGroups = Annotated[
    bool, typer.Option("--all-groups", help="Every group that commits offsets. Those with members are left out of a change.")
]
Topic = Annotated[
    list[str] | None,
    typer.Option("--topic", "--input-topic", metavar="T", help="A topic, or some of its partitions: orders, orders:0,1. May be repeated."),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="Every partition that the group has an offset for.")]
AllInputTopics = Annotated[
    bool,
    typer.Option("--all-input-topics", help="The same, but only of inputs: of a group of the streams protocol, or of the application."),
]


def list_groups(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    state: Annotated[str | None, typer.Option(help="Only groups in these states, such as Stable,Empty.")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="Only groups of these types: classic, consumer, streams, share.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the groups of the cluster with type and state."""
    with recovery_of(name, configs) as recovery:
        listed = recovery.groups.listed()
    states, kinds = _lower(state), _lower(kind)
    found = {
        group_id: one
        for group_id, one in listed.items()
        if (states is None or one.state.lower() in states) and (kinds is None or one.kind in kinds)
    }
    if as_json:
        print_json(
            [{"group_id": group_id, "type": one.kind, "state": one.state, "protocol": one.protocol} for group_id, one in found.items()]
        )
    else:
        print_table(("group", "type", "state"), map(_listed, found.items()))


def describe_groups(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    group: Group = None,
    all_groups: AllGroups = False,
    members: Annotated[bool, typer.Option("--members", help="Only the members.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Only type, state and number of members.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Only the offsets.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show groups as they are now: type, state, members, and how many offsets they are behind in each partition."""
    if members + state + offsets > 1:
        raise typer.BadParameter("Only one of --members, --state and --offsets. Without them all is shown.")
    request = _request(GroupAction.RESET, group, all_groups=all_groups)
    with recovery_of(name, configs) as recovery:
        names: list[str | None] = [*request.groups]
        if all_groups:
            names = [group_id for group_id, one in recovery.groups.listed().items() if one.commits]
        found = [look_at_group(recovery, one) for one in names or [None]]
    if as_json:
        shown = [{**codec.encode(one), "behind": one.behind} for one in found]
        print_json(shown if request.several else shown[0])
        return
    everything = not (members or state or offsets)
    for one in found:
        if everything or state:
            line(f"group {one.group_id}: {one.kind}, {one.state}, {len(one.members)} members, {one.behind:,} offsets behind")
        if members or (everything and one.members):
            _show_members(one)
        if offsets or (everything and one.partitions):
            _show_offsets(one)


@asks(without=("logs",))
def reset_groups(
    call: Call,
    *,
    group: Group = None,
    all_groups: AllGroups = False,
    topic: Topic = None,
    all_topics: AllTopics = False,
    all_input_topics: AllInputTopics = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first offset that is still there.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the present offset, or the end where there is none.")] = False,
    to_offset: Annotated[int | None, typer.Option(help="To this offset, within the log.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(help="To the first record of this time or later. Without a time zone it is in UTC.")
    ] = None,
    by_duration: Annotated[str | None, typer.Option(help="To the first record of this long ago or later, such as P1DT2H.")] = None,
    shift_by: Annotated[int | None, typer.Option(help="So many offsets forward, or back if negative, within the log.")] = None,
    from_file: Annotated[Path | None, typer.Option(help="To the offsets in this file, which names the partitions.")] = None,
    export: Annotated[bool, typer.Option("--export", help="Print the new offsets as CSV.")] = False,
) -> None:
    """Set the offsets of groups, as Kafka's own tool does. The groups may have no members. Shows the plan and asks first."""
    if export and call.as_json:
        raise typer.BadParameter("Only one of --export and --json.")
    scenario = _scenario(
        reset_options.to_earliest() if to_earliest else None,
        reset_options.to_latest() if to_latest else None,
        reset_options.to_current() if to_current else None,
        None if to_offset is None else reset_options.to_offset(to_offset),
        None if to_datetime is None else reset_options.to_datetime(to_datetime),
        None if by_duration is None else reset_options.by_duration(by_duration),
        None if shift_by is None else reset_options.shift_by(shift_by),
        None if from_file is None else FromFile(name=from_file.name, content=_content(from_file)),
    )
    scope = _scope(topic, all_topics=all_topics, all_input_topics=all_input_topics)
    if (scope is None) is not isinstance(scenario, FromFile):
        raise typer.BadParameter("Name partitions with --topic, --all-topics or --all-input-topics. A file has them itself.")
    request = _request(GroupAction.RESET, group, all_groups=all_groups, scope=scope, scenario=scenario)
    _change(call, request, export=export)


@asks(without=("logs",))
def delete_offsets(
    call: Call,
    *,
    group: Group = None,
    topic: Topic = None,
    all_topics: AllTopics = False,
    all_input_topics: AllInputTopics = False,
) -> None:
    """Delete offsets of groups, and keep the groups. They may have no members. Shows the plan and asks first."""
    scope = _scope(topic, all_topics=all_topics, all_input_topics=all_input_topics)
    if scope is None:
        raise typer.BadParameter("Name partitions with --topic, --all-topics or --all-input-topics.")
    request = _request(GroupAction.DELETE_OFFSETS, group, scope=scope)
    _change(call, request)


@asks(without=("logs",))
def delete_groups(
    call: Call,
    *,
    group: Group = None,
    all_groups: AllGroups = False,
) -> None:
    """Delete groups with all their offsets. They may have no members. Shows the plan and asks first."""
    request = _request(GroupAction.DELETE, group, all_groups=all_groups)
    _change(call, request)


def export_groups(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    group: Group = None,
    all_groups: AllGroups = False,
    topic: Topic = None,
    all_topics: AllTopics = False,
    all_input_topics: AllInputTopics = False,
) -> None:
    """Print what groups have committed as CSV, for reset --from-file and for Kafka's own tools. Default: on every topic."""
    scope = _scope(topic, all_topics=all_topics, all_input_topics=all_input_topics)
    request = _request(GroupAction.RESET, group, all_groups=all_groups, scope=scope)
    with recovery_of(name, configs) as recovery:
        found = group_changes.export(recovery, request)
    _print_csv(found, request)


def _change(call: Call, request: GroupRequest, *, export: bool = False) -> None:
    with recovery_of(call.name, call.configs) as recovery:
        planned = group_changes.plan(recovery, request)
        text = plan_text(planned)
        if call.plan_only and export:
            _print_csv(planned.offsets(), request)
            return
        if not call.agreed(planned, text, typed=recovery.application_id):
            return
        run = requester()
        done = group_changes.carry_out(recovery, request, approved_hash=planned.hash, run_id=run.run_id, requested_by=run.requested_by)
    if export:
        _print_csv(planned.offsets(), request)
    elif call.as_json:
        print_json(done)
    else:
        for group_id, moved in done.moved.items():
            line(f"group {group_id}: {_said(done, moved)}")
    if done.before is not None:
        for group in planned.groups:
            if group.moving:
                say_command(
                    f"This takes {group.group_id} back:", command("offsets", "restore", call.name, done.before, "--group", group.group_id)
                )


def _said(done: GroupChangeDone, moved: int) -> str:
    return {
        GroupAction.RESET: f"{moved} offsets were set",
        GroupAction.DELETE_OFFSETS: f"{moved} offsets were deleted",
        GroupAction.DELETE: f"it was deleted with {moved} offsets",
        GroupAction.ROLLBACK: f"{moved} offsets went back",
    }[done.action]


def _request(
    action: GroupAction,
    groups: list[str] | None,
    *,
    all_groups: bool = False,
    scope: PartitionScope | None = None,
    scenario: Strategy | None = None,
) -> GroupRequest:
    if groups and all_groups:
        raise typer.BadParameter("Only one of --group and --all-groups.")
    return GroupRequest(action=action, groups=tuple(groups or ()), all_groups=all_groups, scope=scope, scenario=scenario)


def _scenario(*given: Strategy | None) -> Strategy:
    found = [one for one in given if one is not None]
    if len(found) != 1:
        raise typer.BadParameter(f"Exactly one of {', '.join(reset_options.OPTIONS)}.")
    return found[0]


def _scope(topics: list[str] | None, *, all_topics: bool, all_input_topics: bool) -> PartitionScope | None:
    if bool(topics) + all_topics + all_input_topics > 1:
        raise typer.BadParameter("Only one of --topic, --all-topics and --all-input-topics.")
    if not (topics or all_topics or all_input_topics):
        return None
    return PartitionScope.parse(topics or (), everything=all_topics, inputs=all_input_topics)


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigInvalid(f"{file} cannot be read: {error.strerror or error}", next_step="name a file of offsets") from error


def _print_csv(offsets: Mapping[str, Mapping[TopicPartition, int]], request: GroupRequest) -> None:
    data().write(csv_text(offsets, with_group=request.several))


def _lower(text: str | None) -> set[str] | None:
    return None if text is None else {part.strip().lower() for part in text.split(",")}


def _listed(item: tuple[str, ListedGroup]) -> tuple[str, ...]:
    group_id, one = item
    return group_id, one.kind, one.state or "-"


def _show_members(one: GroupLag) -> None:
    columns = ("client", "host", "instance", "member", "partitions", *(("tasks",) if one.kind == "streams" else ()))
    rows = [
        (
            member.client_id,
            member.host,
            member.group_instance_id or "-",
            member.member_id,
            str(len(member.assigned)),
            *((", ".join(member.tasks) or "-",) if one.kind == "streams" else ()),
        )
        for member in one.members
    ]
    print_table(columns, rows)


def _show_offsets(one: GroupLag) -> None:
    columns = ("topic", "partition", "role", "committed", "end", "behind", "undecided", "deleted unread", "client")
    print_table(columns, map(_cells, one.partitions))


def _cells(one: PartitionLag) -> tuple[str, ...]:
    committed = "-" if one.committed is None else f"{one.committed:,}"
    numbers = (f"{number:,}" for number in (one.end, one.behind, one.undecided, one.gone))
    return one.topic, str(one.partition), one.role or "-", committed, *numbers, one.client or "-"
