"""A key of each kind that a repository has."""

from __future__ import annotations

import inspect

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout

ARGUMENTS = {
    "segment": (TopicPartition("t", 0), 0, 1, "a"),
    "range_table": ("t", "0" * 64),
    "table": ("s", "store", "r", "00000"),
    "wrapped_key": ("k0000000000000001", 1),
    "retired": ("s", 1),
    "work": ("r", "n"),
}


def every_kind(layout: Layout) -> dict[str, str]:
    """A key of each kind that there is, by the name of what makes it."""
    kinds = {}
    for name, made in inspect.getmembers_static(Layout):
        if isinstance(made, property) and name not in ("safety", "archiving"):
            kinds[name] = f"{getattr(layout, name)}x"
        elif inspect.isfunction(made) and not name.startswith("_"):
            found = getattr(layout, name)(*ARGUMENTS.get(name, ("x",)))
            # Those that read a key make none.
            kinds |= {name: f"{found}x" if found.endswith("/") else found} if isinstance(found, str) else {}
    return kinds | {"archive_locks": f"{layout.archiving.locks}x"}
