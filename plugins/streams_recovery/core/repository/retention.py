"""Retention: savepoints that stay, and files that no savepoint needs any more. Decisions only; nothing is removed here.

Deletion by a schedule never begins unless it was announced days before, under the same rules.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from streams_recovery.core.approval import hash_of
from streams_recovery.core.escaping import Markdown, md
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.repository.encryption import KEY_ID, made_at, named_key
from streams_recovery.core.repository.manifest import Captured
from streams_recovery.core.words import moment, time_of

DAY_MS = 86_400_000
_BUCKETS = {"hourly": "%Y-%m-%d %H", "daily": "%Y-%m-%d", "weekly": "%G week %V", "monthly": "%Y-%m"}
# In place of rules: nothing is announced any more.
WITHDRAWN: Final = "withdrawn"
# An announcement is never further ahead: a year, and a day for clocks that differ.
_MOST_DAYS: Final = 366


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """``last`` newest ones, and the newest of each of so many hours, days, ISO weeks and months (UTC) that have one. ``minimum`` newest ones
    stay whatever the rules say. Only ``exact`` savepoints count: a rule that is met by one that may count input twice, or whose state is damaged, is
    not met.
    """

    last: int
    hourly: int
    daily: int
    weekly: int
    monthly: int
    minimum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSavepoint(Captured):
    """A savepoint as retention sees it. ``whole`` is False when files it names are missing; ``in_use`` means that an unfinished restore needs it; ``needed_by``
    are restores of other applications that need it, or may. ``replaces`` is the savepoint of the same cut that it was compacted from, with proof, None when
    there is none. ``profile`` tells whether it has state, ``survives`` whether it is enough when the whole cluster is lost.
    ``rescaled``: a rescale has made it for its restore, and it takes the place of none.
    """

    savepoint_id: str
    whole: bool
    in_use: bool
    replaces: str | None = None
    profile: Profile = Profile.FULL
    survives: bool = False
    needed_by: tuple[str, ...] = ()
    rescaled: bool = False

    @property
    def exact(self) -> bool:
        """True if it may meet a rule by its label."""
        return self.consistency is Consistency.EXACT and not self.rescaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A mark that one savepoint is to be kept whatever the rules say, or no longer. ``restore_id`` is the restore whose later input it has, None when a
    person said it. Who said it ends it: each of them has a mark of its own.
    """

    savepoint_id: str
    keep: bool
    at: int
    requested_by: str
    reason: str
    restore_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The end of a pin that was not set again. It counts from ``until`` (ms) on; the pin still keeps the savepoint before."""

    savepoint_id: str
    restore_id: str | None
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """``marks`` in the order in which they were made, at the moment ``now`` (ms). ``at`` of each is when it was stored. A release counts
    ``notice_ms`` later, so that there is time to pin the savepoint again.
    """

    marks: tuple[Pin, ...]
    now: int
    notice_ms: int

    def kept(self) -> dict[str, tuple[str | None, ...]]:
        return pinned(self.marks)

    def releases(self) -> tuple[Release, ...]:
        """Releases that do not count yet. One that is repeated counts from the first time on."""
        ended: dict[tuple[str, str | None], int] = {}
        for mark in self.marks:
            who = mark.savepoint_id, mark.restore_id
            if mark.keep:
                ended.pop(who, None)
            elif who not in ended:
                ended[who] = mark.at + self.notice_ms
        set_once = {(mark.savepoint_id, mark.restore_id) for mark in self.marks if mark.keep}
        return tuple(
            Release(savepoint_id=savepoint_id, restore_id=restore_id, until=until)
            for (savepoint_id, restore_id), until in ended.items()
            if until > self.now and (savepoint_id, restore_id) in set_once
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision on one savepoint. It stays when there is a reason to keep it. ``until`` (ms) is when the release of a pin counts, None if no release waits.
    ``survives_cluster_loss`` decides nothing; it is for readers of the list.
    """

    savepoint_id: str
    captured_at: int
    why_kept: tuple[str, ...]
    survives_cluster_loss: bool
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An object in the repository. ``modified`` is in milliseconds."""

    key: str
    bytes: int
    modified: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork:
    """The artifacts of one run: their ``keys``, ``bytes`` together, and when the newest of them was stored (ms)."""

    run: str
    keys: tuple[str, ...]
    bytes: int
    modified: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWork:
    """A run whose artifacts are old and stay all the same."""

    run: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLock:
    """The store's lock on an object. ``until`` (ms) is None when no time is set; ``mode`` is the store's name for how strictly it holds."""

    mode: str
    until: int | None
    legal_hold: bool

    def holds(self, now: int) -> str | None:
        """The reason why the object may not go at ``now`` (ms), None when it may."""
        if self.legal_hold:
            return "locked by a legal hold"
        if self.until is not None and self.until > now:
            return f"locked until {moment(self.until)} ({self.mode.lower()})"
        return None


def decide(savepoints: Sequence[HeldSavepoint], rules: KeepRules, pins: Pins) -> list[Decision]:
    """One decision for every savepoint, newest first, at the moment of ``pins``.

    A savepoint that is not ``exact``, or that a rescale has made, meets no rule; it stays as long as it is newer than the oldest savepoint that ``last`` keeps.
    Without any exact savepoint all of them stay. A savepoint that is not whole meets no rule either, and stays until a person has looked at it. A savepoint
    from which another whole one was made meets no rule: both are of one moment, and the newer one replaces it. It stays for a day: a restore or a drill that
    began with it may be under way. A savepoint of a moment in the future meets no rule and stays: a clock was wrong, or the savepoint was forged to push others
    out. Savepoints with state and minimal ones are judged apart: one without state never takes the place of one that has it.
    """
    apart = ([held for held in savepoints if held.profile is profile] for profile in Profile)
    decisions = [decision for alike in apart for decision in _decide_alike(alike, rules, pins)]
    return sorted(decisions, key=lambda decision: (decision.captured_at, decision.savepoint_id), reverse=True)


def _decide_alike(savepoints: Sequence[HeldSavepoint], rules: KeepRules, pins: Pins) -> list[Decision]:
    now = pins.now
    reasons: dict[str, list[str]] = {held.savepoint_id: [] for held in savepoints}
    newest_first = sorted(savepoints, key=lambda held: (held.captured_at, held.savepoint_id), reverse=True)
    replaced = _replaced(savepoints)
    exact = [h for h in newest_first if h.exact and h.whole and h.captured_at <= now and h.savepoint_id not in replaced]
    for held in exact[: rules.last]:
        reasons[held.savepoint_id].append("last")
    for held in exact[: rules.minimum]:
        reasons[held.savepoint_id].append("minimum")
    for rule, form in _BUCKETS.items():
        for bucket, held in _newest_of_each(exact, form, getattr(rules, rule)).items():
            reasons[held.savepoint_id].append(f"{rule} {bucket}")
    for savepoint_id, restores in pins.kept().items():
        if savepoint_id in reasons:
            reasons[savepoint_id] += [
                "pinned" if restore_id is None else f"has the later input of restore {restore_id}" for restore_id in restores
            ]
    _add_other_reasons(newest_first, exact, reasons, rules, now, replaced)
    until = _add_released(pins.releases(), reasons)
    return [
        Decision(
            savepoint_id=held.savepoint_id,
            captured_at=held.captured_at,
            why_kept=tuple(reasons[held.savepoint_id]),
            survives_cluster_loss=held.survives,
            until=until.get(held.savepoint_id),
        )
        for held in newest_first
    ]


def _add_other_reasons(
    newest_first: Sequence[HeldSavepoint],
    exact: Sequence[HeldSavepoint],
    reasons: dict[str, list[str]],
    rules: KeepRules,
    now: int,
    replaced: set[str],
) -> None:
    """Reasons beside the rules and the pins."""
    kept_since = min((held.captured_at for held in exact[: max(1, rules.last)]), default=None)
    for held in newest_first:
        recent = held.captured_at <= now and (kept_since is None or held.captured_at >= kept_since)
        if not held.exact and recent and held.savepoint_id not in replaced:
            reasons[held.savepoint_id].append("made by a rescale, but recent" if held.rescaled else "not exact, but recent")
    for held in newest_first:
        young = held.savepoint_id in replaced and now - DAY_MS < held.captured_at <= now
        reasons[held.savepoint_id] += ["another one stands for it, but it is recent"] if young else []
        reasons[held.savepoint_id] += [] if held.whole else ["damaged: check it"]
        reasons[held.savepoint_id] += ["of a time that has not come: check it"] if held.captured_at > now else []
        reasons[held.savepoint_id] += (
            ["needed by a restore that is not finished: `resume` goes on with it, `dismiss` ends it"] if held.in_use else []
        )
        reasons[held.savepoint_id] += [f"needed by {one}" for one in held.needed_by]


def _add_released(releases: Iterable[Release], reasons: dict[str, list[str]]) -> dict[str, int]:
    """Moments at which the last release of a pin counts, for each savepoint that has one. The release is told even if another reason keeps the savepoint: when
    that reason ends later, no message is sent.
    """
    until: dict[str, int] = {}
    for release in releases:
        if release.savepoint_id in reasons:
            until[release.savepoint_id] = max(release.until, until.get(release.savepoint_id, 0))
            reasons[release.savepoint_id].append(f"a pin that was released, until {moment(release.until)}")
    return until


def _replaced(savepoints: Sequence[HeldSavepoint]) -> set[str]:
    """Savepoints that a later one replaces: a whole savepoint of the same moment and label that was made from it, directly or by steps between."""
    made = [held for held in savepoints if held.whole and held.replaces is not None]
    sources = {(held.captured_at, held.consistency, held.replaces) for held in made}
    moments = {(held.captured_at, held.consistency, time_of(held.replaces)) for held in made if held.replaces is not None}
    return {
        held.savepoint_id
        for held in savepoints
        if (held.captured_at, held.consistency, held.savepoint_id) in sources
        # The one between may have expired. One lock holds for all savepoints, so of one moment only one was taken.
        or (held.replaces is None and not held.rescaled and (held.captured_at, held.consistency, time_of(held.savepoint_id)) in moments)
    }


def _newest_of_each(newest_first: Sequence[HeldSavepoint], form: str, count: int) -> dict[str, HeldSavepoint]:
    found: dict[str, HeldSavepoint] = {}
    for held in newest_first:
        bucket = datetime.fromtimestamp(held.captured_at / 1000, UTC).strftime(form)
        if bucket not in found and len(found) < count:
            found[bucket] = held
    return found


def pinned(pins: Iterable[Pin]) -> dict[str, tuple[str | None, ...]]:
    """Ids that are to be kept, each with the restores that need it, None among them when a person said so. ``pins`` in the order in which they were made."""
    latest = {(mark.savepoint_id, mark.restore_id): mark.keep for mark in pins}
    found: dict[str, tuple[str | None, ...]] = {}
    for (savepoint_id, restore_id), keep in latest.items():
        if keep:
            found[savepoint_id] = (*found.get(savepoint_id, ()), restore_id)
    return found


def removable(unnamed: Iterable[StoredFile], *, now: int, grace_ms: int) -> list[StoredFile]:
    """The files that no savepoint names and that are older than the grace period: a younger one may belong to a savepoint in the making."""
    return [file for file in unnamed if file.modified < now - grace_ms]


def old_work(files: Iterable[StoredFile], run_of: Callable[[str], str | None], *, now: int, age_ms: int) -> list[RunWork]:
    """The artifacts of runs that have left none since ``age_ms``. ``run_of`` gives the run of a file; files without a run are passed over."""
    runs: dict[str, list[StoredFile]] = {}
    for file in files:
        if (run := run_of(file.key)) is not None:
            runs.setdefault(run, []).append(file)
    return [
        RunWork(run=run, keys=tuple(file.key for file in left), bytes=sum(file.bytes for file in left), modified=newest)
        for run, left in sorted(runs.items())
        if (newest := max(file.modified for file in left)) < now - age_ms
    ]


def unneeded_keys(wrapped: Iterable[StoredFile], objects: Iterable[str], *, now: int, grace_ms: int) -> list[StoredFile]:
    """What is stored of data keys that are in the name of none of these ``objects``, and that were made before the grace period: a younger one may be about to
    encrypt something, for a day and as long as the run takes that began with it.
    """
    needed = {named[1] for key in objects if (named := named_key(key)) is not None}
    forms: dict[str, list[StoredFile]] = {}
    for file in wrapped:
        key_id = file.key.rsplit("/", 2)[-2]
        if KEY_ID.fullmatch(key_id) and key_id not in needed:
            forms.setdefault(key_id, []).append(file)
    old = now - grace_ms - DAY_MS
    return [
        file
        for key_id, stored in forms.items()
        if made_at(key_id) * 1000 < old and all(one.modified < old for one in stored)
        for file in stored
    ]


def past_grace(expired: Mapping[str, int], *, now: int, grace_ms: int) -> set[str]:
    """The savepoints whose files may go for good, of those that have ``expired`` with the moment they did."""
    return {savepoint_id for savepoint_id, at in expired.items() if at < now - grace_ms}


class Apply(enum.StrEnum):
    """The use that a scheduled run makes of its plan: carry it out, only show it, or announce it and carry it out some days later."""

    YES = "true"
    NO = "false"
    AFTER_DAYS = "after_days"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPolicy:
    """Deletion as it is configured. ``rules`` identifies the rules by which savepoints and files go: other rules have to be announced again."""

    apply: Apply
    after_days: int
    scheduled: bool
    rules: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """The announcement that runs delete by these rules from ``deletes_from`` on. Moments are in milliseconds."""

    at: int
    deletes_from: int
    rules: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionOutlook:
    """The deletion that runs of the schedule do. ``deletes_from`` is the moment that was announced, in milliseconds, None when none was. ``due`` says that a
    run may delete now.
    """

    apply: Apply
    scheduled: bool
    after_days: int
    deletes_from: int | None
    due: bool


def rules_of(rules: KeepRules, *, grace_days: int, safety_days: int, work_days: int) -> str:
    """Identifies everything that decides what goes, and when."""
    kept = [rules.last, rules.hourly, rules.daily, rules.weekly, rules.monthly, rules.minimum]
    return hash_of([*kept, grace_days, safety_days, work_days])


def outlook(policy: DeletionPolicy, newest: Announcement | None, *, stored_at: int, now: int) -> DeletionOutlook:
    """The outlook by the policy and the newest announcement, which was stored at ``stored_at`` (ms). The days of notice count from then at the earliest,
    whatever the announcement says: any writer of the repository can write an announcement.
    """
    announced = None
    if newest is not None and newest.rules == policy.rules:
        announced = stored_at + policy.after_days * DAY_MS
        if announced < newest.deletes_from <= stored_at + _MOST_DAYS * DAY_MS:
            announced = newest.deletes_from
    waits = policy.apply is Apply.AFTER_DAYS
    return DeletionOutlook(
        apply=policy.apply,
        scheduled=policy.scheduled,
        after_days=policy.after_days,
        deletes_from=announced if waits else None,
        due=announced is not None and now >= announced if waits else policy.apply is Apply.YES,
    )


def needs_announcement(found: DeletionOutlook) -> bool:
    """True if the next run has to announce before any run may delete."""
    return found.apply is Apply.AFTER_DAYS and found.deletes_from is None


def announcement(policy: DeletionPolicy, *, now: int, run_id: str) -> Announcement:
    """The one to write now."""
    return Announcement(at=now, deletes_from=now + policy.after_days * DAY_MS, rules=policy.rules, run_id=run_id)


def outlook_text(outlook: DeletionOutlook) -> Markdown:
    """A sentence on what runs of the schedule do with a plan of expiry."""
    if not outlook.scheduled:
        return md("No run is scheduled (`retention.schedule`). Nothing is deleted unless somebody starts a run.")
    if outlook.apply is Apply.YES:
        return md("Runs of the schedule carry this out (`retention.apply: true`).")
    if outlook.apply is Apply.NO:
        return md("Runs of the schedule only show this (`retention.apply: false`).")
    if outlook.deletes_from is None:
        days = outlook.after_days
        return md("Runs of the schedule only show this. The next one announces that they carry it out from {} days later on.", days)
    if outlook.due:
        return md("Runs of the schedule carry this out since {}, as it was announced.", moment(outlook.deletes_from))
    return md("**From {} on, runs of the schedule carry this out.** Until then they only show it.", moment(outlook.deletes_from))
