"""The command that shows the application's consumer group: who is in it, and how far it is behind."""

from __future__ import annotations

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Name, print_json, recovery_of
from streams_recovery.cli.screen import line
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core import codec
from streams_recovery.core.status.group import PartitionLag
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
        members = [(one.client_id, one.host, one.group_instance_id or "-", one.member_id) for one in found.members]
        print_table(("client", "host", "instance", "member"), members)
    if found.partitions:
        print_table(
            ("topic", "partition", "role", "committed", "end", "behind", "undecided", "deleted unread"), map(_cells, found.partitions)
        )


def _cells(one: PartitionLag) -> tuple[str, ...]:
    committed = "-" if one.committed is None else f"{one.committed:,}"
    numbers = (f"{number:,}" for number in (one.end, one.behind, one.undecided, one.gone))
    return one.topic, str(one.partition), one.role, committed, *numbers
