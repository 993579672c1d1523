"""What the steps of a cut-over hand to each other."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.rollout.cutover import CutoverStep
from streams_recovery.operations.renewed_lock import HeldLock


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverRequest:
    """What a person asks for. ``max_lag`` is how many input records the clone may be behind, None for what is configured. With ``restore_first`` a way
    back leaves the old application down.
    """

    step: CutoverStep
    max_lag: int | None
    reason: str
    restore_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverTicket:
    """A cut-over under way, with the locks of both. ``running`` are the application ids of those that ran when it was opened."""

    step: CutoverStep
    run: str
    requested_by: str
    reason: str
    plan_hash: str
    old: HeldLock
    clone: HeldLock
    running: tuple[str, ...]
    restore_first: bool
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedForCutover:
    """Who was proven down, by application id, with whether it closed cleanly."""

    closed_cleanly: dict[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsTransferred:
    """Who writes the outputs from now on, and what comes twice by it: input records by partition, and records in repartition topics."""

    live: str
    again: dict[TopicPartition, int]
    tail: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStarted:
    """The application that writes the outputs, started. ``ends`` are those of its inputs right before."""

    application_id: str
    instances: tuple[str, ...]
    ends: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverReport:
    """A cut-over that is done. ``records_again`` is the sum of ``again``; ``offsets`` are what both had committed when the outputs were transferred."""

    step: CutoverStep
    run: str
    live: str
    stopped: str
    closed_cleanly: dict[str, bool]
    again: dict[TopicPartition, int]
    records_again: int
    tail: dict[TopicPartition, int]
    offsets: dict[str, dict[TopicPartition, int]]
    requested_by: str
    reason: str
    started_at: int
    finished_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAs:
    """What became of a cut-over that did not finish: the role of each application, those that were started again, what to do next, and the commands for
    that.
    """

    roles: dict[str, Role]
    started: tuple[str, ...]
    next_step: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtBack:
    """What became of the old application at the end of an upgrade. ``started`` is empty when the clone took over."""

    live: str
    started: tuple[str, ...]
