"""What commands and DAGs are for, by what a person is about to do, and which DAGs there are while some of these groups are off."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Final


class Panel(enum.StrEnum):
    """A part of the list of commands."""

    FIRST = "First steps"
    EVERY_DAY = "Every day"
    WAYS_BACK = "Ways back"
    TRYING = "Trying things"
    LOOKING = "Looking"
    UPKEEP = "Upkeep"


class DagGroup(enum.StrEnum):
    """DAGs that are for the same, as commands of the panel with this name are. It is a tag of each of them."""

    EVERY_DAY = Panel.EVERY_DAY.lower()
    WAYS_BACK = Panel.WAYS_BACK.lower()
    TRYING = Panel.TRYING.lower()
    LOOKING = Panel.LOOKING.lower()
    UPKEEP = Panel.UPKEEP.lower()


# By the id of the DAG, for one application without its name.
_DAGS: Final = {
    DagGroup.EVERY_DAY: ("streams_backup", "streams_archive", "streams_check", "streams_mirror", "streams_run", "streams_monitor"),
    DagGroup.WAYS_BACK: (
        "streams_restore_full",
        "streams_restore_pitr",
        "streams_restore_rebuild",
        "streams_restore_topics",
        "streams_restore_rescale",
        "streams_failover",
        "streams_upgrade",
        "streams_undo",
        "streams_append_quarantine",
    ),
    DagGroup.TRYING: ("streams_drill", "streams_clone", "streams_reprocess"),
    DagGroup.LOOKING: ("streams_compare", "streams_compare_outputs", "streams_look_up"),
    DagGroup.UPKEEP: ("streams_compact", "streams_expire"),
}
GROUPS: Final[Mapping[str, DagGroup]] = {dag_id: group for group, ids in _DAGS.items() for dag_id in ids}


def is_shared_dag_drawn(dag_id: str, off: Collection[Collection[DagGroup]]) -> bool:
    """True if the DAG that all applications share is there. ``off`` has the groups that each application has switched off. It is gone when all of them have
    switched off its group, and there when nothing is configured.
    """
    return not off or any(GROUPS[dag_id] not in groups for groups in off)
