"""Which groups there are, and of which kind. Only a listing knows a group of the streams protocol for what it is."""

from __future__ import annotations

from typing import NamedTuple

from streams_recovery.kafka.clients import Clients


class ListedGroup(NamedTuple):
    """A group as a listing shows it; ``state`` is the broker's word."""

    kind: str
    state: str


def list_group_kinds(clients: Clients) -> dict[str, ListedGroup]:
    """Every group of the cluster. A broker that does not answer is an error: its groups would look absent."""

    def ask() -> list[dict[str, str]]:
        return list(clients.pure.list_groups())

    answer = clients.patiently("listing groups", ask)
    # Brokers older than the new protocols name no type; all their groups are classic.
    return {
        group["group_id"]: ListedGroup((group.get("group_type") or "classic").lower(), group.get("group_state") or "") for group in answer
    }
