"""Expiry: savepoints that no rule keeps stop existing; their files go a grace period later. Run again, it finishes what a killed run began.

Order, so that a kill at any point harms nothing: the manifest is copied to ``expired/``, then removed; a savepoint is either whole or expired. Files go only
when neither a savepoint nor one that expired within the grace period names them, and never while a manifest cannot be read: it might name any of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from streams_recovery.core.approval import check_approved, hash_of
from streams_recovery.core.errors import Damaged, LockHeld, NotFound, PermanentError, Refused
from streams_recovery.core.escaping import Markdown, code, joined, logger, md
from streams_recovery.core.repository import retention
from streams_recovery.core.repository.mirror import savepoint_of
from streams_recovery.core.repository.retention import Decision, DeletionOutlook, outlook_text
from streams_recovery.core.repository.seal import ForgedRecord, forged_records, unproven_text
from streams_recovery.core.words import command, moment
from streams_recovery.operations import unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.announce import deletion_outlook
from streams_recovery.operations.maintenance.contents import Holdings, Leftovers, drills_of, grace_ms, holdings, leftovers
from streams_recovery.operations.maintenance.wanted_there import places
from streams_recovery.operations.quiesce_record import quiesce_log, run_log
from streams_recovery.operations.renewed_lock import HeldLock, held_lock, require_lock
from streams_recovery.operations.second_place import is_there
from streams_recovery.operations.unfinished import keep_rules
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.mirror import require_filled
from streams_recovery.storage.savepoints import SavepointStore

if TYPE_CHECKING:
    from streams_recovery.storage.s3 import BucketProtection


LOGGER = logger("streams_recovery.operations.maintenance")
_RENEWED_EVERY = 500
# Every step of a run adds one; a log of a year is slow to list.
_LOG_RECORDS = 500
# Of logs that only people look at. No writer keeps more of them.
_SEEN_RECORDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlan:
    """The plan of an expiry. ``expire_safety`` are safety savepoints older than anybody is expected to go back. ``files`` with ``bytes`` would be removed for
    good, and what is in ``leftovers``; ``blocked`` says why no file and no run's work may go. ``unproven`` are records that are not believed, so many in all,
    and stay with all that they name. ``outlook`` says what runs of the schedule do with it. ``second_place`` is where it works, empty for the first one.
    """

    application_id: str
    keep: tuple[Decision, ...]
    expire: tuple[Decision, ...]
    expire_safety: tuple[str, ...]
    files: tuple[str, ...]
    bytes: int
    forget: tuple[str, ...]
    leftovers: Leftovers
    blocked: str | None
    unproven: tuple[ForgedRecord, ...]
    unproven_count: int
    outlook: DeletionOutlook
    second_place: str = ""

    @property
    def hash(self) -> str:
        """Identifies what is removed, and where."""
        return hash_of([self.application_id, self.parts, *filter(None, [self.second_place])])

    @property
    def not_judged(self) -> tuple[str, ...]:
        """The records and files that stay because it is unknown whether they are needed, in words."""
        unproven = (unproven_text(self.unproven_count),) if self.unproven_count else ()
        return (*unproven, *(() if self.blocked is None else (self.blocked,)))

    @property
    def parts(self) -> dict[str, object]:
        return {
            "savepoints that expire": [decision.savepoint_id for decision in self.expire],
            "safety savepoints that expire": self.expire_safety,
            "files that are removed": self.files,
            "expired savepoints that are forgotten": self.forget,
            "runs whose work is removed": [work.run for work in self.leftovers.work],
            "files of killed writers and of drills that are removed": [file.key for file in self.leftovers.staged],
            "data keys that are removed": [file.key for file in self.leftovers.keys],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireReport:
    """The result of an expiry. ``runs_removed`` had left work, ``staged_removed`` were files of writers that were killed, or of drills,
    ``keys_removed`` data keys. ``left`` could not be removed, by key
    and reason: object lock, or no right to delete. ``versions_kept`` means that the bucket keeps what was removed as older versions, until its own rules let
    them go.
    """

    plan: ExpirePlan
    expired: tuple[str, ...]
    files_removed: int
    runs_removed: int
    staged_removed: int
    keys_removed: int
    left: tuple[str, ...]
    versions_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The pins of a savepoint: ``kept`` is True when a person or a restore keeps it, and ``restores`` are those whose later input it has. ``until`` (ms) is
    when the last release of a pin counts: the savepoint stays until then. None when none waits for that.
    """

    savepoint_id: str
    kept: bool
    restores: tuple[str, ...]
    until: int | None = None


def pin(
    recovery: RecoveryContext, savepoint_id: str, *, keep: bool, requested_by: str, reason: str, restore_id: str | None = None
) -> Pinned:
    """Keep a savepoint whatever the rules say, or leave it to them again ``retention.grace_days`` later; with ``restore_id``, end that restore's pin.
    Takes the application's lock for a moment, so that no expiry decides meanwhile. Returns who keeps it then. Raises ``NotFound``, also for a restore
    that has set no pin, and ``LockHeld``.
    """
    owner = f"pin {savepoint_id} {os.getpid()}-{os.urandom(4).hex()}"
    with held_lock(recovery, owner, purpose=f"pinning of {savepoint_id}"):
        before = retention.pinned(unfinished.pin_log(recovery).read_all()).get(savepoint_id, ())
        if keep or not before:
            # One that is pinned can be released whatever became of it.
            recovery.savepoints.outline(savepoint_id)
        if restore_id is not None and restore_id not in before:
            raise NotFound(
                f"restore {restore_id} keeps no savepoint {savepoint_id}; restores that do: {', '.join(filter(None, before)) or 'none'}",
                next_step="name one of those, or leave the restore out to end the pin that a person set",
                savepoint=savepoint_id,
            )
        unfinished.pin(recovery, savepoint_id, keep=keep, requested_by=requested_by, reason=reason, restore_id=restore_id)
        after = unfinished.pins_of(recovery)
        keepers = after.kept().get(savepoint_id, ())
        return Pinned(
            savepoint_id=savepoint_id,
            kept=bool(keepers),
            restores=tuple(filter(None, keepers)),
            until=max((one.until for one in after.releases() if one.savepoint_id == savepoint_id), default=None),
        )


def plan_expiry(recovery: RecoveryContext) -> ExpirePlan:
    """Plan what the rules say now. Changes nothing. A savepoint whose manifest cannot be read is never expired. In a second place, where a context has the two
    places the other way round, all stays that the first one has. Raises ``Refused`` there where that one is another one's, or has no savepoints.
    """
    return _planned_here(recovery, holdings(recovery))


def _planned_here(recovery: RecoveryContext, found: Holdings) -> ExpirePlan:
    plan = _planned(recovery, found, leftovers(recovery))
    return _in_second_place(recovery, plan, _in_first_place(recovery)) if recovery.config.storage.is_turned_round else plan


def _in_first_place(recovery: RecoveryContext) -> frozenset[str]:
    """The keys of all objects that the first place has, which nobody needs to ask twice: whatever it has is kept in the second one too."""
    found = frozenset[str]()
    if is_there(recovery):
        two = places(recovery)
        require_filled(two.other, two.first, recovery.layout)
        two.other.require_not_moved(recovery.application_id)
        found = frozenset(two.other.sizes(f"{recovery.application_id}/"))
    if not any(savepoint_of(recovery.application_id, key) for key in found):
        place = str(recovery.config.storage.mirror and recovery.config.storage.mirror.location)
        raise Refused(
            f"the first place {place} has no savepoints: those of the second one may be the last",
            next_step="fill it from the second place first",
            place=place,
        ).then(command("mirror", recovery.config.name, "--from", "mirror"))
    return found


def _in_second_place(recovery: RecoveryContext, plan: ExpirePlan, first: frozenset[str]) -> ExpirePlan:
    layout = recovery.layout
    here = [one for one in plan.expire if layout.manifest(one.savepoint_id) in first]
    known = {key.removeprefix(layout.retired_prefix).partition("/")[0] for key in first if key.startswith(layout.retired_prefix)}
    sizes = recovery.repository.sizes(f"{recovery.application_id}/")
    files = tuple(key for key in plan.files if key not in first)
    return replace(
        plan,
        keep=(*plan.keep, *(replace(one, why_kept=("the first place has it",)) for one in here)),
        expire=tuple(one for one in plan.expire if one not in here),
        expire_safety=tuple(one for one in plan.expire_safety if layout.safety.manifest(one) not in first),
        files=files,
        bytes=sum(sizes.get(key, 0) for key in files),
        # What the first place still says of it would come again.
        forget=tuple(one for one in plan.forget if one not in known and layout.published(one) not in first),
        leftovers=replace(plan.leftovers, keys=tuple(one for one in plan.leftovers.keys if one.key not in first)),
        outlook=replace(plan.outlook, scheduled=False),
        second_place=str(recovery.repository.location),
    )


def _planned(recovery: RecoveryContext, found: Holdings, left: Leftovers) -> ExpirePlan:
    now = recovery.clock()
    decisions = retention.decide(found.held(), keep_rules(recovery), found.pins)
    files = [] if found.unreadable else retention.removable(found.unnamed(), now=now, grace_ms=grace_ms(recovery))
    return ExpirePlan(
        application_id=recovery.application_id,
        keep=tuple(decision for decision in decisions if decision.why_kept),
        expire=tuple(decision for decision in decisions if not decision.why_kept),
        expire_safety=tuple(
            one.savepoint_id
            for one in found.safety
            if one.captured_at < now - recovery.config.retention.safety_days * retention.DAY_MS
            and one.savepoint_id not in found.in_use
            and not (found.of_others.unreadable or one.savepoint_id in found.of_others.by)
        ),
        files=tuple(file.key for file in files),
        bytes=sum(file.bytes for file in files),
        forget=tuple(sorted(savepoint_id for savepoint_id, gone in found.expired.items() if gone.summary is None)),
        # Artifacts of a run may be the only trace of a savepoint that is lost, and a file that is missing may be brought back.
        leftovers=replace(left, work=() if found.unreadable else left.work, keys=() if found.unreadable or found.broken else left.keys),
        unproven=forged_records(found.unproven.records),
        unproven_count=len(found.unproven.records),
        blocked=f"no file may go while these cannot be read: {', '.join(found.unreadable)}" if found.unreadable else None,
        outlook=deletion_outlook(recovery),
    )


def expire(recovery: RecoveryContext, run_id: str, *, approved: str | None = None) -> ExpireReport:
    """Carry out what the rules say, under the application's lock: whatever that is, or exactly the plan whose hash is ``approved``. What cannot be
    removed is reported, not raised. Raises ``LockHeld`` and ``PlanChanged``.
    """
    with held_lock(recovery, f"expiry {run_id}", purpose=f"expiry of {recovery.application_id}") as held:
        found = holdings(recovery)
        plan = _planned_here(recovery, found)
        if approved is not None:
            check_approved(plan, approved)
        if plan.expire and not plan.keep:
            raise Refused(
                "the rules would leave no savepoint at all", next_step="raise retention.minimum", application_id=recovery.application_id
            )
        remover = Remover(recovery)
        left: list[str] = []
        expired = []
        going = [(recovery.savepoints, recovery.layout, decision.savepoint_id) for decision in plan.expire]
        going += [(recovery.safety, recovery.layout.safety, savepoint_id) for savepoint_id in plan.expire_safety]
        for store, layout, savepoint_id in going:
            require_lock(recovery, held)
            if problem := _retired(recovery, remover, store, layout.manifest(savepoint_id), savepoint_id):
                left.append(problem)
            else:
                expired.append(savepoint_id)
        files_left = _remove_files(recovery, remover, plan, held)
        # While files are left, the copy of the manifest is what tells whose they are.
        forget = () if files_left or plan.blocked else plan.forget
        copies_left = [_forgotten_of(recovery, remover, savepoint_id, found.expired[savepoint_id].copies) for savepoint_id in forget]
        removed, runs_left = _remove_work(recovery, remover, plan, held)
        removed_of_drills, drills_left = _remove_work_of_drills(recovery, run_id, remover, plan)
        staged_left = [*filter(None, (remover.remove(file.key) for file in plan.leftovers.staged))]
        # The forms of one data key lie side by side, and go together.
        forms = [[file.key for file in key] for _, key in groupby(plan.leftovers.keys, key=lambda file: file.key.rpartition("/")[0])]
        keys_left = [*filter(None, (remover.remove_all(key, emptied=True) for key in forms))]
        left += [*files_left, *filter(None, copies_left), *runs_left, *drills_left, *staged_left, *keys_left, *_forgotten(recovery)]
        return ExpireReport(
            plan=plan,
            expired=tuple(expired),
            files_removed=len(plan.files) - len(files_left),
            runs_removed=removed + removed_of_drills,
            staged_removed=len(plan.leftovers.staged) - len(staged_left),
            keys_removed=len(forms) - len(keys_left),
            left=tuple(left),
            versions_kept=remover.keeps_versions,
        )


def _retired(recovery: RecoveryContext, remover: Remover, store: SavepointStore, manifest: str, savepoint_id: str) -> str | None:
    # A copy of what stays would only be one more object that cannot go.
    if problem := remover.locked(manifest):
        return problem
    store.retire(savepoint_id, at=recovery.clock())
    return remover.remove(manifest)


def _remove_files(recovery: RecoveryContext, remover: Remover, plan: ExpirePlan, held: HeldLock) -> list[str]:
    left = []
    for number, key in enumerate(plan.files):
        if number % _RENEWED_EVERY == 0:
            require_lock(recovery, held)
        if problem := remover.remove(key):
            left.append(problem)
    return left


def _remove_work(recovery: RecoveryContext, remover: Remover, plan: ExpirePlan, held: HeldLock) -> tuple[int, list[str]]:
    own = [work for work in plan.leftovers.work if work.keys[0].startswith(recovery.layout.artifacts)]
    left = []
    for number, work in enumerate(own):
        if number % _RENEWED_EVERY == 0:
            require_lock(recovery, held)
        if problem := remover.remove_all(work.keys, emptied=True):
            left.append(problem)
    return len(own) - len(left), left


def _remove_work_of_drills(recovery: RecoveryContext, run_id: str, remover: Remover, plan: ExpirePlan) -> tuple[int, list[str]]:
    drills = drills_of(recovery)
    if drills is None:
        return 0, []
    try:
        with held_lock(drills, f"expiry {run_id}", purpose=f"expiry of {recovery.application_id}") as held:
            removed, left = _remove_work(drills, remover, plan, held)
            return removed, [*left, *_forgotten(drills)]
    except LockHeld as error:
        # The next expiry does it.
        LOGGER.info("what drills have left stays: %s", error.reason)
        return 0, []
    except Damaged as error:
        return 0, [f"what drills have left: {error.reason}"]


def _forgotten(recovery: RecoveryContext) -> list[str]:
    logs: dict[str, Callable[[], int]] = {
        "the lock": lambda: recovery.lock.forget(_LOG_RECORDS),
        "quiesce": lambda: quiesce_log(recovery).prune(_LOG_RECORDS),
        "runs": lambda: run_log(recovery).prune(_LOG_RECORDS),
    }
    # Their writers shorten these themselves, unless they may not delete.
    for prefix in (recovery.layout.status, recovery.layout.alerts, recovery.layout.inspections, recovery.layout.outputs_compared):
        log = AppendLog(recovery.repository, prefix, object)
        logs[prefix] = partial(log.prune, _SEEN_RECORDS, whole=False)
    return [problem for name, prune in logs.items() if (problem := _pruned(name, prune)) is not None]


def _pruned(name: str, prune: Callable[[], int]) -> str | None:
    try:
        prune()
    except PermanentError as error:
        return f"old records of {name}: {error.reason}"
    return None


def _forgotten_of(recovery: RecoveryContext, remover: Remover, savepoint_id: str, copies: tuple[str, ...]) -> str | None:
    """Remove what is left of an expired savepoint. Returns why it could not be removed, None when it is gone."""
    offsets = list(recovery.repository.keys(recovery.layout.offset_snapshot(savepoint_id)))
    if locked := next(
        filter(
            None, map(remover.locked, (recovery.layout.published(savepoint_id), recovery.layout.detail(savepoint_id), *copies, *offsets))
        ),
        None,
    ):
        return locked
    if problem := next(filter(None, map(remover.remove, offsets)), None):
        return problem
    try:
        recovery.savepoints.forget(savepoint_id, copies)
    except PermanentError as error:
        return f"{copies[0]}: {error.reason}"
    return None


class Remover:
    """Removes objects of one repository. A locked object is not touched: its server would only hide it, keep it and be paid for it."""

    def __init__(self, recovery: RecoveryContext) -> None:
        self._context = recovery
        self._protection = _protection(recovery)

    @property
    def keeps_versions(self) -> bool:
        """True when what is removed stays as an older version."""
        return self._protection is not None and self._protection.keeps_versions

    def locked(self, key: str) -> str | None:
        """The reason why the store holds an object, and until when; None when it does not."""
        lock = None if self._protection is None else self._protection.lock_of(key)
        why = None if lock is None else lock.holds(self._context.clock())
        return f"{key}: {why}" if why else None

    def remove(self, key: str) -> str | None:
        """Remove an object. Returns why it could not be removed, None when it is gone."""
        return self.remove_all([key])

    def remove_all(self, keys: Sequence[str], *, emptied: bool = False) -> str | None:
        """Remove objects that belong together. Returns why they could not be removed, None when all are gone. While one is locked, all stay. ``emptied`` as for
        ``Repository.delete``.
        """
        if locked := next(filter(None, map(self.locked, keys)), None):
            return locked
        try:
            self._context.repository.delete(list(keys), emptied=emptied)
        except PermanentError as error:
            return f"{keys[0]}: {error.reason}"
        return None


def _protection(recovery: RecoveryContext) -> BucketProtection | None:
    if recovery.repository.location.backend != "s3":
        return None
    # Slow to import, and nothing but expiry in a bucket needs it.
    from streams_recovery.storage.s3 import BucketProtection  # noqa: PLC0415

    return BucketProtection(recovery.repository.location, recovery.credentials)


def expiry_text(plan: ExpirePlan) -> Markdown:
    """The plan, every savepoint with its reason."""
    leaving = ", ".join(decision.savepoint_id for decision in plan.keep if decision.until is not None)
    released = md("> **Warning:** pins of {} were released. `savepoints keep` sets one again.", leaving)
    return joined(
        [
            md("### Expiry of savepoints of {}", code(plan.application_id)),
            md(""),
            md(
                "{} stay, {} expire; {} files with {:,} bytes are past their grace period and go.",
                len(plan.keep),
                len(plan.expire),
                len(plan.files),
                plan.bytes,
            ),
            *([md(""), md("In the second place {}. All stays that the first one has.", plan.second_place)] if plan.second_place else []),
            *_leftovers(plan.leftovers),
            md(""),
            outlook_text(plan.outlook),
            md(""),
            md("| savepoint | captured | survives the loss of the cluster | decision |"),
            md("|---|---|---|---|"),
            *(_row(decision, md("stays: {}", ", ".join(decision.why_kept))) for decision in plan.keep),
            *(_row(decision, md("**expires**")) for decision in plan.expire),
            *(md("| {} | before a restore | - | **expires** |", savepoint_id) for savepoint_id in plan.expire_safety),
            *([md(""), released] if leaving else []),
            *([md(""), md("> **Warning:** {}", plan.blocked)] if plan.blocked else []),
            *_unproven(plan),
        ]
    )


def _unproven(plan: ExpirePlan) -> Iterator[Markdown]:
    if plan.unproven_count:
        yield md("")
        yield md("> **Warning:** {}", unproven_text(plan.unproven_count))
        yield md("")
        yield from (md("- {}: {}", code(one.key), one.why) for one in plan.unproven)


def _leftovers(found: Leftovers) -> Iterator[Markdown]:
    if found.work:
        yield md("")
        yield md("The work of {:,} runs that are over goes, with {:,} bytes.", len(found.work), sum(work.bytes for work in found.work))
    if found.staged:
        yield md("")
        yield md(
            "{:,} files of writers that were killed, or that drills have placed anew, go, with {:,} bytes.",
            len(found.staged),
            sum(file.bytes for file in found.staged),
        )
    if found.keys:
        yield md("")
        yield md("{:,} data keys go that nothing is encrypted with any more.", len({file.key.rpartition("/")[0] for file in found.keys}))
    for one in found.kept:
        yield md("")
        yield md("The work of run {} stays: {}.", one.run, one.why)


def _row(decision: Decision, what: Markdown) -> Markdown:
    survives = "yes" if decision.survives_cluster_loss else "no"
    return md("| {} | {} | {} | {} |", decision.savepoint_id, moment(decision.captured_at), survives, what)
