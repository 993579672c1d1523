"""How to look at a group, and which of its settings are the group's own, by the group's protocol."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.remedies.remedy import KafkaTool, Remedy


def tool_of(protocol: str) -> KafkaTool:
    """The tool for a group, by the ``kind`` of its description. Any other one says that the group does not exist."""
    return KafkaTool.STREAMS_GROUPS if protocol == "streams" else KafkaTool.CONSUMER_GROUPS


EXAMPLES: Final[tuple[Remedy, ...]] = ()
