"""The results of drills. Every drill has one entry, also a failed one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from streams_recovery.core.codec import LEFT_OUT
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.estimate import placing_ms
from streams_recovery.core.restore.planned import RestoreFacts
from streams_recovery.core.restore.report import RestoreReport, Verdict
from streams_recovery.core.words import first_names


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxEntry:
    """One run of a sandbox. ``reached`` is the last phase of its restore, None if none was begun. ``left`` names objects that could not be removed; then the
    run has failed.
    """

    run: str
    requested_by: str
    restore_id: str | None
    savepoint_id: str | None
    reached: Phase | None
    left: tuple[str, ...]
    succeeded: bool

    def failed_text(self, where: str = "") -> str:
        """Text about one that failed: how far it got, ``where``, and whether something is left."""
        got = "before it began" if self.reached is None else f"after {self.reached}"
        return f"failed {got}{where}{', something is left' if self.left else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillEntry(SandboxEntry):
    """One drill. ``rpo_seconds`` is the age of the savepoint when the drill began: input of this time would have had to be processed again. ``loss_seconds``
    is what a loss of the cluster at that moment would have cost, measured: the age of the newest moment up to which the drill brought input back; None if the
    inputs were there and it brought none. ``rto_seconds`` is the time from then until the application was RUNNING and had caught up, without what only a
    rescale needs. Each is None if the drill failed before it was known. It was at the cluster of ``site``. ``partitions`` are the other numbers that it tried,
    None of an ordinary one.
    """

    began_at: int
    plan_hash: str | None
    captured_at: int | None
    rows: int
    keys_compared: int
    rpo_seconds: float | None
    rto_seconds: float | None
    site: str = PRIMARY
    loss_seconds: float | None = None
    partitions: str | None = field(default=None, metadata=LEFT_OUT)

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        where = "" if self.site == PRIMARY else f" at {self.site}"
        where += f" with {first_names(self.partitions.split())}" if self.partitions else ""
        return f"succeeded{where}" if self.succeeded else self.failed_text(where)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRestore:
    """The restore of a drill. ``report`` is None if it was not finished. ``input_upto`` (ms) is up to when it brought input back, None for never."""

    restore_id: str
    plan_hash: str
    planned: RestoreFacts
    report: RestoreReport | None
    journal: tuple[JournalEntry, ...]
    input_upto: int | None = None


def furthest(journal: Collection[JournalEntry]) -> Phase:
    """The last phase that a restore reached by itself. An interrupted restore is closed later, without having recovered."""
    phases = {entry.phase for entry in journal}
    own = phases if Phase.RECOVERED in phases else phases - {Phase.CLOSED}
    return max(own, key=lambda phase: phase.rank, default=Phase.OPENED)


def drill_entry(
    *,
    run: str,
    requested_by: str,
    began_at: int,
    restored: DrillRestore | None,
    left: tuple[str, ...],
    site: str = PRIMARY,
    partitions: str = "",
) -> DrillEntry:
    """The entry of a drill. It has succeeded if the application recovered, records were compared, and nothing is left."""
    failed = DrillEntry(
        run=run,
        requested_by=requested_by,
        began_at=began_at,
        restore_id=None,
        savepoint_id=None,
        plan_hash=None,
        captured_at=None,
        reached=None,
        rows=0,
        keys_compared=0,
        rpo_seconds=None,
        rto_seconds=None,
        succeeded=False,
        left=left,
        site=site,
        partitions=partitions or None,
    )
    if restored is None:
        return failed
    reached, planned, report = furthest(restored.journal), restored.planned, restored.report
    proven = report is not None and report.rows > 0 and report.verdict is Verdict.EQUAL
    recovered_at = next((entry.at for entry in restored.journal if entry.phase is Phase.RECOVERED), None)
    return replace(
        failed,
        restore_id=restored.restore_id,
        savepoint_id=planned.savepoint_id,
        plan_hash=restored.plan_hash,
        captured_at=planned.captured_at,
        reached=reached,
        rows=report.rows if report else 0,
        keys_compared=report.keys_compared if report else 0,
        rpo_seconds=None if planned.captured_at is None else _seconds(planned.captured_at, began_at),
        rto_seconds=None if recovered_at is None else _seconds(began_at + placing_ms(restored.journal), recovered_at),
        succeeded=reached is Phase.CLOSED and proven and not left,
        loss_seconds=None if restored.input_upto is None else _seconds(restored.input_upto, began_at),
    )


def _seconds(since: int, until: int) -> float:
    # The clocks of two machines may differ: a moment in the future counts as now.
    return round(max(0, until - since) / 1000, 1)
