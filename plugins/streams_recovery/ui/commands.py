"""Commands about one savepoint, ready to copy. What is in capitals is to be filled in."""

from __future__ import annotations

from streams_recovery.core.next_command import command


def commands_of(name: str, savepoint_id: str) -> tuple[tuple[str, str], ...]:
    """What people do with a savepoint, by what it is called."""
    return (
        ("Pin", command("savepoints", "keep", name, savepoint_id, "--reason", "REASON")),
        ("Unpin", command("savepoints", "release", name, savepoint_id, "--reason", "REASON")),
        ("Check every byte", command("verify", name, savepoint_id, "--level", "full")),
        ("Plan a restore", command("restore", name, "--savepoint", savepoint_id, "--plan")),
        ("Look up a key", command("state", name, "STORE", "--savepoint", savepoint_id, "--key", "KEY")),
        ("Compare with another", command("state-diff", name, "STORE", savepoint_id, "latest")),
    )
