"""From when on scheduled runs of an expiry delete. Deletion by a schedule never begins unless it was announced days before, under the same rules."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.approval import hash_of
from streams_recovery.core.escaping import Markdown, md
from streams_recovery.core.repository.retention import DAY_MS, KeepRules
from streams_recovery.core.timestamps import moment

# In place of rules: nothing is announced any more.
WITHDRAWN: Final = "withdrawn"
# Nobody announces further ahead: a year, and a day for clocks that differ.
_MOST_DAYS: Final = 366


class Apply(enum.StrEnum):
    """What a scheduled run does with its plan: carry it out, only show it, or announce it and carry it out some days later."""

    YES = "true"
    NO = "false"
    AFTER_DAYS = "after_days"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPolicy:
    """What the configuration says. ``rules`` identifies the rules by which savepoints and files go: other rules have to be announced again."""

    apply: Apply
    after_days: int
    scheduled: bool
    rules: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """That runs delete by these rules from ``deletes_from`` on. Moments are in milliseconds."""

    at: int
    deletes_from: int
    rules: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionOutlook:
    """What runs of the schedule do. ``deletes_from`` is the moment that was announced, in milliseconds, None when none was. ``due`` says that a run
    may delete now.
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
    """What follows from the policy and the newest announcement, which was stored at ``stored_at`` (ms). The days of notice count from then at the
    earliest, whatever the announcement says: whoever can write to the repository can write one.
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
    """Whether the next run has to announce before any run may delete."""
    return found.apply is Apply.AFTER_DAYS and found.deletes_from is None


def announcement(policy: DeletionPolicy, *, now: int, run_id: str) -> Announcement:
    """The one to write now."""
    return Announcement(at=now, deletes_from=now + policy.after_days * DAY_MS, rules=policy.rules, run_id=run_id)


def outlook_text(outlook: DeletionOutlook) -> Markdown:
    """What runs of the schedule do with a plan of expiry."""
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
