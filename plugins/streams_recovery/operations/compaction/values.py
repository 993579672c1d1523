"""What the steps of a compaction hand to each other."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.run_artifact import ArtifactRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """Who wants a savepoint compacted and why. ``savepoint`` is an id, or ``latest`` for the newest one with state, whatever its label."""

    savepoint: str
    run_id: str
    requested_by: str
    reason: str

    @property
    def run(self) -> str:
        """The name that ids are made of. Runs that take savepoints on the same schedule have the same run id."""
        return f"compaction {self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTicket:
    """A compaction under way: ``savepoint_id`` is the id that the result will have, ``source_id`` the savepoint it is made of. What is to be done is a
    note in the repository, ``spec``, None when there is nothing to compact. It holds no lock: the savepoint it reads never changes, and what it
    writes is nothing until it is published.
    """

    request: CompactRequest
    savepoint_id: str
    source_id: str
    spec: ArtifactRef | None
    partitions: int
    offsets: int
    stays: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSummary:
    """A published compaction in numbers. ``stays`` has the changelogs that are as they were, each with its reason."""

    application_id: str
    savepoint_id: str
    source_id: str
    manifest_key: str
    partitions: int
    rows_before: int
    rows_after: int
    records_before: int
    records: int
    keys_compared: int
    stays: dict[str, str]
