"""Parts of a chain that several DAGs draw. Those that are task groups give their tasks' ids no prefix, so a task is called the same wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow.sdk import BaseOperator, TaskGroup, chain

from streams_recovery.operators.restore import (
    AwaitRecoveredOperator,
    CheckDeferredInputOperator,
    CheckLoadOperator,
    KeepStateOperator,
    PrepareTopicsOperator,
    ResetConsumerGroupOperator,
    SaveStateOperator,
    StartApplicationOperator,
    StopApplicationOperator,
    VerifyChangelogsOperator,
    VerifyDeferredInputOperator,
    WipeStateOperator,
)
from streams_recovery.operators.spark import (
    CompareDeferredInputOperator,
    CompareRecordsOperator,
    CopyStateOperator,
    LoadDeferredInputOperator,
    LoadRecordsOperator,
)

# A savepoint of what a restore is about to replace. `streams_undo` brings it back.
SAFETY_SAVEPOINT: Final = (SaveStateOperator, CopyStateOperator, KeepStateOperator)
# Topics loaded from the savepoint, and proven equal to it.
LOAD_AND_VERIFY: Final = (LoadRecordsOperator, CheckLoadOperator, CompareRecordsOperator, VerifyChangelogsOperator)
# The input of an interval, loaded once what comes before it is processed, and proven equal to the archive.
DEFERRED_INPUT: Final = (LoadDeferredInputOperator, CheckDeferredInputOperator, CompareDeferredInputOperator, VerifyDeferredInputOperator)


def replace_state(application_name: str, *, grouped: bool = True) -> tuple[BaseOperator | TaskGroup, ...]:
    """For Airflow's ``chain``: the application stopped, its state saved, its topics loaded and verified. Without ``grouped`` there are no task groups in it,
    for a chain that stands in one whose name begins the task ids.
    """
    return (
        StopApplicationOperator(application_name=application_name),
        *_part("safety_savepoint", SAFETY_SAVEPOINT, application_name, grouped=grouped),
        PrepareTopicsOperator(application_name=application_name),
        *_part("load_and_verify", LOAD_AND_VERIFY, application_name, grouped=grouped),
    )


def safety_savepoint(application_name: str) -> TaskGroup:
    """A savepoint of what is there."""
    return _group("safety_savepoint", SAFETY_SAVEPOINT, application_name)


def load_and_verify(application_name: str) -> TaskGroup:
    """Topics loaded from the savepoint, and proven equal to it."""
    return _group("load_and_verify", LOAD_AND_VERIFY, application_name)


def start_again(application_name: str) -> tuple[BaseOperator, ...]:
    """For Airflow's ``chain``: offsets set, local state wiped, the application started and waited for."""
    return (
        ResetConsumerGroupOperator(application_name=application_name),
        WipeStateOperator(application_name=application_name),
        StartApplicationOperator(application_name=application_name),
        AwaitRecoveredOperator(application_name=application_name),
    )


def load_deferred_input(application_name: str) -> TaskGroup:
    """The input of an interval, loaded while the application is down, and verified."""
    return _group("deferred_input", DEFERRED_INPUT, application_name)


def _part(name: str, operators: Sequence[type[Any]], application_name: str, *, grouped: bool) -> tuple[BaseOperator | TaskGroup, ...]:
    if grouped:
        return (_group(name, operators, application_name),)
    return tuple(operator(application_name=application_name) for operator in operators)


def _group(name: str, operators: Sequence[type[Any]], application_name: str) -> TaskGroup:
    with TaskGroup(name, prefix_group_id=False) as group:
        chain(*(operator(application_name=application_name) for operator in operators))
    return group
