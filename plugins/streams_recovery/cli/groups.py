"""The command that shows the application's consumer group: who is in it, and how far it is behind."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Name, print_json, recovery_of
from streams_recovery.cli.screen import line
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core import codec
from streams_recovery.core.status.group import GroupLag
from streams_recovery.operations.status.groups import look_at_group


def groups(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """Show the application's consumer group as it is now: kind, state, members, and how many offsets it is behind in each partition."""
    with recovery_of(name, configs) as recovery:
        found = look_at_group(recovery)
    if as_json:
        print_json({**codec.encode(found), "behind": found.behind})
        return
    line(f"group {found.group_id}: {found.kind}, {found.state}, {len(found.members)} members, {found.behind:,} offsets behind")
    if found.members:
        members = Table("client", "host", "instance", "member")
        for member in found.members:
            members.add_row(*map(escape, (member.client_id, member.host, member.group_instance_id or "-", member.member_id)))
        print_table(members)
    if found.partitions:
        print_table(_partitions(found))


def _partitions(found: GroupLag) -> Table:
    shown = Table("topic", "partition", "role", "committed", "end", "behind", "undecided", "deleted unread")
    for one in found.partitions:
        committed = "-" if one.committed is None else f"{one.committed:,}"
        numbers = (f"{number:,}" for number in (one.end, one.behind, one.undecided, one.gone))
        shown.add_row(escape(one.topic), str(one.partition), one.role, committed, *numbers)
    return shown
