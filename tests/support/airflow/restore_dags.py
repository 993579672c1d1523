"""The DAGs that there are once, for all applications: those that a person starts to bring one back or to look into a savepoint, and the monitor."""

from __future__ import annotations

from typing import Final

from streams_recovery.operations.restore.strategies import STRATEGIES, RestoreRequest

# Each with the strategy that it asks for.
RESTORE_DAGS: Final[dict[str, type[RestoreRequest]]] = {found.DAG: found for found in STRATEGIES.values() if found.DAG is not None}
CLONE, APPEND, TOPICS, UPGRADE = "streams_clone", "streams_append_quarantine", "streams_restore_topics", "streams_upgrade"
WAYS_BACK: Final = (*RESTORE_DAGS, CLONE, APPEND)
MONITOR: Final = "streams_monitor"
LOOKS: Final = ("streams_compare", "streams_compare_outputs", "streams_look_up")
OF_ALL: Final = (*WAYS_BACK, *LOOKS, MONITOR)
