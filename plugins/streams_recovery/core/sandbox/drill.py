"""The results of drills. Every drill has one entry, also a failed one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.sites import PRIMARY


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillEntry:
    """One drill. ``rpo_seconds`` is the age of the savepoint when the drill began: input of this time would have had to be processed again. ``loss_seconds`` is
    what a loss of the cluster at that moment would have cost, measured: the age of the newest moment up to which the drill brought input back; None where the
    inputs were there and it brought none. ``rto_seconds`` is the time from then until the application was RUNNING and had caught up. Each is None if the drill
    failed before it was known. ``reached`` is the last phase of its restore, None if none was begun. ``left`` names objects that could not be removed; then the
    drill has failed. It was at the cluster of ``site``.
    """

    run: str
    requested_by: str
    began_at: int
    restore_id: str | None
    savepoint_id: str | None
    plan_hash: str | None
    captured_at: int | None
    reached: Phase | None
    rows: int
    keys_compared: int
    rpo_seconds: float | None
    rto_seconds: float | None
    succeeded: bool
    left: tuple[str, ...]
    site: str = PRIMARY
    loss_seconds: float | None = None

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        where = "" if self.site == PRIMARY else f" at {self.site}"
        if self.succeeded:
            return f"succeeded{where}"
        got = "before it began" if self.reached is None else f"after {self.reached}"
        return f"failed {got}{where}{', something is left' if self.left else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRestore:
    """The restore of a drill. ``proven`` is False if it has no evidence, or evidence of a difference. ``input_upto`` (ms) is up to when it brought input back,
    None where it brought none.
    """

    restore_id: str
    savepoint_id: str | None
    plan_hash: str
    captured_at: int | None
    journal: tuple[JournalEntry, ...]
    rows: int
    keys_compared: int
    proven: bool
    input_upto: int | None = None


def furthest(journal: Collection[JournalEntry]) -> Phase:
    """The last phase that a restore reached by itself. An interrupted restore is closed later, without having recovered."""
    phases = {entry.phase for entry in journal}
    own = phases if Phase.RECOVERED in phases else phases - {Phase.CLOSED}
    return max(own, key=lambda phase: phase.rank, default=Phase.OPENED)


def drill_entry(
    *, run: str, requested_by: str, began_at: int, restored: DrillRestore | None, left: tuple[str, ...], site: str = PRIMARY
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
    )
    if restored is None:
        return failed
    reached = furthest(restored.journal)
    recovered_at = next((entry.at for entry in restored.journal if entry.phase is Phase.RECOVERED), None)
    return replace(
        failed,
        restore_id=restored.restore_id,
        savepoint_id=restored.savepoint_id,
        plan_hash=restored.plan_hash,
        captured_at=restored.captured_at,
        reached=reached,
        rows=restored.rows,
        keys_compared=restored.keys_compared,
        rpo_seconds=None if restored.captured_at is None else _seconds(restored.captured_at, began_at),
        rto_seconds=None if recovered_at is None else _seconds(began_at, recovered_at),
        succeeded=reached is Phase.CLOSED and restored.proven and restored.rows > 0 and not left,
        loss_seconds=None if restored.input_upto is None else _seconds(restored.input_upto, began_at),
    )


def _seconds(since: int, until: int) -> float:
    # The clocks of two machines may differ: a moment in the future counts as now.
    return round(max(0, until - since) / 1000, 1)
