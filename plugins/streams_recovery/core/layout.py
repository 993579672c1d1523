"""All object names in a repository come from here; nobody else joins paths. docs/format.md draws the tree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from streams_recovery.core.model import TopicPartition
from streams_recovery.core.names import checked_name


@dataclass(frozen=True, slots=True)
class Layout:
    """Keys of one application's objects, relative to the repository's root. Names are checked, so no key can leave the prefix."""

    application_id: str

    def __post_init__(self) -> None:
        checked_name("application id", self.application_id)

    def segment(self, tp: TopicPartition, start: int, end: int, attempt: str) -> str:
        """A segment's key. ``attempt`` is unique per task attempt, so a repeated or doubled task never meets an existing object."""
        topic = checked_name("topic", tp.topic)
        return f"{self.application_id}/segments/{topic}/{tp.partition}/{start:020}-{end:020}-{checked_name('attempt', attempt)}.parquet"

    @property
    def savepoints(self) -> str:
        """Prefix of all savepoints."""
        return f"{self.application_id}/savepoints/"

    def manifest(self, savepoint_id: str) -> str:
        """The object whose existence makes a savepoint exist."""
        return f"{self.savepoints}{checked_name('savepoint id', savepoint_id)}/manifest.json.zst"

    def work(self, run: str, name: str) -> str:
        """Notes that the tasks of one run leave for each other: the cut before its copy, job specifications and results."""
        return f"{self.application_id}/work/{checked_name('run', run)}/{checked_name('note', name)}.json"

    @property
    def locks(self) -> str:
        """Prefix of the numbered lock objects."""
        return f"{self.application_id}/locks/"

    @property
    def holds(self) -> str:
        """Prefix of the numbered hold records."""
        return f"{self.application_id}/holds/"

    def journal(self, restore_id: str) -> str:
        """Prefix of the numbered journal entries of one restore."""
        return f"{self.application_id}/restores/{checked_name('restore id', restore_id)}/journal/"

    def report(self, restore_id: str) -> str:
        """The evidence of one restore."""
        return f"{self.application_id}/restores/{checked_name('restore id', restore_id)}/report.json"

    def audit(self, audit_id: str) -> str:
        """Prefix of the numbered verdicts of one audit: one, or more when its last step was repeated."""
        return f"{self.application_id}/audits/{checked_name('audit id', audit_id)}/"

    @property
    def segments(self) -> str:
        """Prefix of all segments."""
        return f"{self.application_id}/segments/"

    @property
    def keeps(self) -> str:
        """Prefix of the numbered words of people on single savepoints."""
        return f"{self.application_id}/keeps/"

    @property
    def retired_prefix(self) -> str:
        """Prefix of the manifests of savepoints that have expired."""
        return f"{self.application_id}/expired/"

    def retired(self, savepoint_id: str, at: int) -> str:
        """A copy of an expired savepoint's manifest, kept as long as its files may still be wanted back. ``at`` is when it was about to expire."""
        return f"{self.retired_prefix}{checked_name('savepoint id', savepoint_id)}/manifest.{at:020}.json.zst"

    def retired_at(self, key: str) -> int | None:
        """The moment in the key of such a copy, None for any other key."""
        found = re.fullmatch(r"[^/]+/manifest\.(\d{20})\.json\.zst", key.removeprefix(self.retired_prefix))
        return int(found[1]) if found else None

    @property
    def restores(self) -> str:
        """Prefix of all restores."""
        return f"{self.application_id}/restores/"
