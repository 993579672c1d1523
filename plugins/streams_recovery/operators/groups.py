"""Parts that several DAGs share, as task groups. Their task ids have no prefix, so a task is called the same wherever it stands."""

from __future__ import annotations

from airflow.sdk import TaskGroup

from streams_recovery.operators.restore import (
    CheckDeferredInputOperator,
    CheckLoadOperator,
    KeepStateOperator,
    SaveStateOperator,
    VerifyChangelogsOperator,
    VerifyDeferredInputOperator,
)
from streams_recovery.operators.spark import (
    CompareDeferredInputOperator,
    CompareRecordsOperator,
    CopyStateOperator,
    LoadDeferredInputOperator,
    LoadRecordsOperator,
)


def safety_savepoint(application_name: str) -> TaskGroup:
    """A savepoint of what a restore is about to replace. `streams_undo` brings it back."""
    with TaskGroup("safety_savepoint", prefix_group_id=False) as group:
        (
            SaveStateOperator(application_name=application_name)
            >> CopyStateOperator(application_name=application_name)
            >> KeepStateOperator(application_name=application_name)
        )
    return group


def load_and_verify(application_name: str) -> TaskGroup:
    """Topics loaded from the savepoint, and proven equal to it."""
    with TaskGroup("load_and_verify", prefix_group_id=False) as group:
        (
            LoadRecordsOperator(application_name=application_name)
            >> CheckLoadOperator(application_name=application_name)
            >> CompareRecordsOperator(application_name=application_name)
            >> VerifyChangelogsOperator(application_name=application_name)
        )
    return group


def load_deferred_input(application_name: str) -> TaskGroup:
    """The input of an interval, loaded once what comes before it is processed, and proven equal to the archive."""
    with TaskGroup("deferred_input", prefix_group_id=False) as group:
        (
            LoadDeferredInputOperator(application_name=application_name)
            >> CheckDeferredInputOperator(application_name=application_name)
            >> CompareDeferredInputOperator(application_name=application_name)
            >> VerifyDeferredInputOperator(application_name=application_name)
        )
    return group
