"""Expiry: savepoints that no rule keeps stop existing; their files go a grace period later. Run again, it finishes what a killed run began.

Order, so that a kill at any point harms nothing: the manifest is copied to ``expired/``, then removed; a savepoint is either whole or
expired. Files go only when neither a savepoint nor one that expired within the grace period names them, and never while a manifest
cannot be read: it might name any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core import retention
from streams_recovery.core.errors import Damaged, PermanentError, Refused
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.retention import Decision, Held, KeepMark, KeepRules
from streams_recovery.leases import LEASE_SECONDS
from streams_recovery.storage.numbered import NumberedLog
from streams_recovery.workbench import Workbench

_RENEWED_EVERY = 500
# Every step of a run adds one; a log of a year is slow to list.
_LOCK_RECORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlan:
    """What an expiry would do now. ``files`` with ``bytes`` would be removed for good; ``blocked`` says why no file may go."""

    application_id: str
    keep: tuple[Decision, ...]
    expire: tuple[Decision, ...]
    files: tuple[str, ...]
    bytes: int
    forget: tuple[str, ...]
    blocked: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireReport:
    """What an expiry did. ``left`` could not be removed, by key and reason: object lock, or no right to delete."""

    plan: ExpirePlan
    expired: tuple[str, ...]
    files_removed: int
    left: tuple[str, ...]


def marks(bench: Workbench) -> NumberedLog[KeepMark]:
    """What people said about single savepoints."""
    return NumberedLog(bench.repository, bench.layout.keeps, KeepMark)


def mark(bench: Workbench, savepoint_id: str, *, keep: bool, requested_by: str, reason: str) -> None:
    """Keep a savepoint whatever the rules say, or leave it to them again. Raises ``NotFound``."""
    bench.savepoints.read(savepoint_id)
    marks(bench).append(KeepMark(savepoint_id=savepoint_id, keep=keep, at=bench.clock(), requested_by=requested_by, reason=reason))


def plan_expiry(bench: Workbench) -> ExpirePlan:
    """What the rules say now. Changes nothing. A savepoint whose manifest cannot be read is never expired."""
    rules, grace_ms, now = _rules(bench), bench.config.retention.grace_days * retention.DAY_MS, bench.clock()
    manifests, unreadable = _readable(bench)
    held = [Held(savepoint_id=m.savepoint_id, captured_at=m.captured_at, consistency=m.consistency) for m in manifests]
    decisions = retention.decide(held, rules, marks(bench).read_all())
    expired, lost = _expired(bench)
    unreadable += lost
    forget = retention.past_grace({key: at for key, (at, _) in expired.items()}, now=now, grace_ms=grace_ms)
    referenced = {file.key for m in manifests for _, file in m.files()}
    for savepoint_id, (_, manifest) in expired.items():
        if savepoint_id not in forget:
            referenced |= {file.key for _, file in manifest.files()}
    files = (
        ()
        if unreadable
        else tuple(retention.removable(bench.repository.listed(bench.layout.segments), referenced, now=now, grace_ms=grace_ms))
    )
    return ExpirePlan(
        application_id=bench.application_id,
        keep=tuple(decision for decision in decisions if decision.why_kept),
        expire=tuple(decision for decision in decisions if not decision.why_kept),
        files=tuple(file.key for file in files),
        bytes=sum(file.bytes for file in files),
        forget=tuple(sorted(forget)),
        blocked=f"no file may go while these manifests cannot be read: {', '.join(unreadable)}" if unreadable else None,
    )


def expire(bench: Workbench, run_id: str) -> ExpireReport:
    """Carry out what the rules say, under the application's lock. Raises ``LockHeld``. What cannot be removed is reported, not raised."""
    lock = bench.lock.acquire(f"expiry {run_id}", lease_seconds=LEASE_SECONDS, purpose=f"expiry of {bench.application_id}")
    try:
        plan = plan_expiry(bench)
        if plan.expire and not plan.keep:
            raise Refused(
                "the rules would leave no savepoint at all", next_step="raise retention.minimum", application_id=bench.application_id
            )
        left: list[str] = []
        expired = []
        for decision in plan.expire:
            bench.lock.renew(lock, lease_seconds=LEASE_SECONDS)
            bench.savepoints.retire(decision.savepoint_id)
            if problem := _removed(bench, bench.layout.manifest(decision.savepoint_id)):
                left.append(problem)
            else:
                expired.append(decision.savepoint_id)
        removed = 0
        for key in plan.files:
            if removed % _RENEWED_EVERY == 0:
                bench.lock.renew(lock, lease_seconds=LEASE_SECONDS)
            problem = _removed(bench, key)
            removed += problem is None
            left += [problem] if problem else []
        if not left:
            # Only now: while files are left, the copy of the manifest is what tells whose they are.
            for savepoint_id in plan.forget:
                problem = _removed(bench, bench.layout.retired(savepoint_id))
                left += [problem] if problem else []
        if problem := _forgotten(bench):
            left.append(problem)
        return ExpireReport(plan=plan, expired=tuple(expired), files_removed=removed, left=tuple(left))
    finally:
        bench.lock.release(lock)


def _forgotten(bench: Workbench) -> str | None:
    try:
        bench.lock.forget(_LOCK_RECORDS)
    except PermanentError as error:
        return f"old records of the lock: {error.reason}"
    return None


def _removed(bench: Workbench, key: str) -> str | None:
    """Why an object could not be removed, None when it is gone."""
    try:
        bench.repository.delete([key])
    except PermanentError as error:
        return f"{key}: {error.reason}"
    return None


def _rules(bench: Workbench) -> KeepRules:
    rules = bench.config.retention
    return KeepRules(
        last=rules.keep_last,
        hourly=rules.keep_hourly,
        daily=rules.keep_daily,
        weekly=rules.keep_weekly,
        monthly=rules.keep_monthly,
        minimum=rules.minimum,
    )


def _readable(bench: Workbench) -> tuple[list[Manifest], list[str]]:
    manifests, unreadable = [], []
    for savepoint_id in bench.savepoints.ids():
        try:
            manifests.append(bench.savepoints.read(savepoint_id))
        except Damaged:
            unreadable.append(savepoint_id)
    return manifests, unreadable


def _expired(bench: Workbench) -> tuple[dict[str, tuple[int, Manifest]], list[str]]:
    """Expired savepoints by id, with the moment they did, and those whose copy cannot be read."""
    found, unreadable = {}, []
    alive = set(bench.savepoints.ids())
    for file in bench.repository.listed(bench.layout.retired_prefix):
        savepoint_id = file.key.removeprefix(bench.layout.retired_prefix).split("/")[0]
        if savepoint_id in alive:
            continue
        try:
            found[savepoint_id] = (file.modified, bench.savepoints.read_retired(savepoint_id))
        except Damaged:
            unreadable.append(f"{savepoint_id} (expired)")
    return found, unreadable
