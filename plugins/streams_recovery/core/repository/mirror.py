"""The second place of a repository: what it lacks, and in which order that comes. Decisions only.

An object comes after all that it names, so at every moment the second place is a repository that can be restored from: a savepoint exists there when its
manifest does, and then it is whole. Nothing is overwritten there, and nothing is removed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.forms import LAST, FieldKind, FormField
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.words import is_id, moment, moment_of

_ENTRY: Final = re.compile(r"[0-9]{12}\.json")


class Where(enum.StrEnum):
    """A place of a repository beside the first one."""

    MIRROR = "mirror"


# It is no part of a request: it says where the repository is that all steps read and write.
FROM_PLACE: Final = FormField(
    name="place",
    title="Read from the second place",
    kind=FieldKind.CHOICE,
    help="For a repository that is lost: its second place is read and written in its stead. Refused while the first one answers and has savepoints.",
    option="from",
    option_help="mirror: the second place, `storage.mirror`, is read and written in place of the repository, which is lost.",
    choices={"": "No: the repository", Where.MIRROR.value: "Yes: storage.mirror in its stead"},
    rank=LAST,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredObject:
    """An object that the second place has to have. ``sha256`` is recorded in what names it, None where nothing has it: then it is compared with the first
    place. ``needs`` are the keys of what has to be there before. One that is ``vouched`` for was proven there before, if it is there.
    """

    key: str
    bytes: int
    sha256: str | None = None
    needs: tuple[str, ...] = ()
    vouched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A repository went from one place ``to`` another one at this moment (ms)."""

    to: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStep:
    """An object that is copied, or that is there and has to be proven to be what it should be."""

    what: MirroredObject
    copies: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """An object that the second place does not get, and why."""

    key: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPlan:
    """What the second ``place`` lacks. ``steps`` stand in an order in which each object comes after all that it needs. ``different`` are there with other
    bytes; what needs one of these is not copied.
    """

    application_id: str
    place: str
    steps: tuple[MirrorStep, ...]
    different: tuple[str, ...]
    passed_over: tuple[PassedOver, ...]

    @property
    def copies(self) -> int:
        return sum(step.copies for step in self.steps)

    @property
    def proven(self) -> int:
        """Objects that are there, and are read and compared."""
        return len(self.steps) - self.copies

    @property
    def bytes(self) -> int:
        """Bytes that are copied."""
        return sum(step.what.bytes for step in self.steps if step.copies)

    @property
    def savepoints(self) -> tuple[str, ...]:
        """Savepoints that the second place does not have yet, safety savepoints among them, in the order in which they come."""
        return tuple(
            found for step in self.steps if step.copies and (found := savepoint_of(self.application_id, step.what.key)) is not None
        )


def mirror_plan(
    application_id: str,
    wanted: Iterable[MirroredObject],
    there: Mapping[str, int],
    passed_over: Sequence[PassedOver] = (),
    *,
    place: str = "",
) -> MirrorPlan:
    """The plan for ``wanted``, each behind all that it needs, where the second place has the objects ``there``, with their sizes. One that is wanted twice
    counts once. What needs an object that is neither wanted nor there does not come.
    """
    steps: list[MirrorStep] = []
    different: list[str] = []
    decided: dict[str, bool] = {}
    for one in wanted:
        if one.key in decided:
            continue
        size = there.get(one.key)
        comes = all(decided.get(key, key in there) for key in one.needs)
        if size is not None and size != one.bytes:
            different.append(one.key)
            comes = False
        decided[one.key] = comes
        if comes and (size is None or not one.vouched):
            steps.append(MirrorStep(what=one, copies=size is None))
    return MirrorPlan(
        application_id=application_id, place=place, steps=tuple(steps), different=tuple(different), passed_over=tuple(passed_over)
    )


def mirror_outline(plan: MirrorPlan) -> dict[str, object]:
    """The plan in numbers, for JSON: it may have a million steps."""
    counts = {"copies": plan.copies, "bytes": plan.bytes, "proven": plan.proven, "savepoints": plan.savepoints}
    return {
        "application_id": plan.application_id,
        "place": plan.place,
        **counts,
        "different": plan.different,
        "passed_over": plan.passed_over,
    }


def at_once(steps: Sequence[MirrorStep]) -> list[list[MirrorStep]]:
    """``steps`` in groups: all of one group may be taken at once, when the groups before it are done."""
    groups: list[list[MirrorStep]] = []
    inside: set[str] = set()
    for step in steps:
        if not groups or any(key in inside for key in step.what.needs):
            groups.append([])
            inside = set()
        groups[-1].append(step)
        inside.add(step.what.key)
    return groups


def savepoint_of(application_id: str, key: str) -> str | None:
    """The savepoint whose manifest is at ``key``, None for any other key."""
    for layout in (Layout(application_id), Layout(application_id).safety):
        name, _, rest = key.removeprefix(layout.savepoints).partition("/")
        if key.startswith(layout.savepoints) and rest == "manifest.json.zst" and is_id(name):
            return name
    return None


def before_manifests(layout: Layout) -> tuple[str, ...]:
    """Prefixes of records that the second place gets before the savepoints: who vouches for these, what opens them, and offsets that were kept with them."""
    return (layout.adopted, layout.keys, layout.offset_snapshots)


def of_archive(layout: Layout) -> tuple[str, ...]:
    """Prefixes of the continuous archive, whose entries come behind the files that they name."""
    return (layout.archive, layout.archive_cuts)


def goes_on_by_itself(log: str, here: Iterable[str], there: Collection[str]) -> bool:
    """True where the log has gone on in the target beyond what the source has, and has removed its older entries: what the source has is older than all that is
    there, and no entry may come before those.
    """
    newest = max((key for key in here if key.startswith(log) and is_entry(key)), default="")
    entries = sorted(key for key in there if key.startswith(log) and is_entry(key))
    return bool(entries) and number_of(entries[0]) > number_of(newest) + 1


def number_of(key: str) -> int:
    """The number of an entry, 0 without one."""
    return int(key.rpartition("/")[2].removesuffix(".json") or 0)


def behind_manifests(layout: Layout) -> tuple[str, ...]:
    """Prefixes of records that it gets behind the savepoints, which they are about. All others are about the first place, or about what works there at this
    moment: locks, artifacts of runs, held applications, what a schedule has started, checks, statuses, alerts, looks, copies of expired manifests; and tables,
    which a person exported.
    """
    logs = (
        layout.pins,
        layout.holds,
        layout.restores,
        layout.quarantines,
        layout.ownership,
        layout.read_up_to,
        layout.loaded,
        layout.sites,
    )
    return (*logs, layout.announcements, layout.drills, layout.slots, layout.reprocessed)


def only_moved(layout: Layout) -> tuple[str, ...]:
    """Prefixes of records that a place needs which becomes the first one: what a schedule has started, verdicts of checks, and tables that people exported."""
    return (layout.scheduled_runs, layout.checks, f"{layout.application_id}/tables/")


def expired_there(layout: Layout, there: Iterable[str]) -> dict[str, list[str]]:
    """The copies of manifests of savepoints that have expired in a place, by id."""
    found: dict[str, list[str]] = {}
    for key in there:
        if layout.retired_at(key) is not None:
            found.setdefault(key.removeprefix(layout.retired_prefix).partition("/")[0], []).append(key)
    return found


def is_entry(key: str) -> bool:
    """True for an entry of a log: its number is its name."""
    return _ENTRY.fullmatch(key.rpartition("/")[2]) is not None


def written_there(layout: Layout, here: Iterable[str], there: Iterable[str]) -> list[str]:
    """The newest entry of each log that has gone on in the second place beyond the first one, or that only the second one has: somebody has worked there.
    Kept offsets go on in one place only, that of their savepoint, and the first place may have removed data keys that are older than its newest one.
    """
    every = (*before_manifests(layout), *of_archive(layout), *behind_manifests(layout))
    logs = tuple(one for one in every if one != layout.offset_snapshots)
    newest: list[dict[str, str]] = []
    for keys in (here, there):
        entries = sorted(key for key in keys if key.startswith(logs) and is_entry(key))
        newest.append({key.rpartition("/")[0]: key for key in entries})
    youngest = max((log for log in newest[0] if log.startswith(layout.keys)), default=layout.keys)
    removed = {log for log in newest[1] if log.startswith(layout.keys) and log not in newest[0] and log < youngest}
    return sorted(key for log, key in newest[1].items() if log not in removed and key > newest[0].get(log, ""))


def records_in_order(records: Iterable[MirroredObject]) -> list[MirroredObject]:
    """Records with what each needs: an entry of a log the one before it. The first entries of all logs come first, then the second ones."""
    by_log: dict[str, list[MirroredObject]] = {}
    for one in sorted(records, key=lambda one: one.key):
        prefix, _, name = one.key.rpartition("/")
        by_log.setdefault(prefix if _ENTRY.fullmatch(name) else one.key, []).append(one)
    placed = []
    for log in by_log.values():
        before: tuple[str, ...] = ()
        for number, one in enumerate(log):
            # Two places that were both written to differ from some entry on: the newest that both have tells.
            placed.append((number, MirroredObject(key=one.key, bytes=one.bytes, needs=before, vouched=one.vouched)))
            before = (one.key,)
    return [one for _, one in sorted(placed, key=lambda found: (found[0], found[1].key))]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPlace:
    """What a look at the manifests in the second ``place`` has found, of ``savepoints`` that there are. ``alone`` are ids of those that are not there, the
    oldest first. So many ``entries`` of the archive are not there; what it has is all that was committed by ``archived_at`` (ms), None where it has nothing.
    ``problem`` is why it could not be looked at, empty when it could.
    """

    place: str
    savepoints: int = 0
    alone: tuple[str, ...] = ()
    entries: int = 0
    archived_at: int | None = None
    problem: str = ""

    def has(self, savepoint_id: str) -> bool | None:
        """Whether a savepoint is there too, None where that is not known."""
        return None if self.problem else savepoint_id not in self.alone

    def __str__(self) -> str:
        if self.problem:
            return f"not known: {self.problem}"
        return f"{self._of_savepoints}{self._of_archive}"

    @property
    def _of_archive(self) -> str:
        if self.archived_at is None:
            return f"; the archive is in one place only, {self.entries:,} entries" if self.entries else ""
        more = f", and {self.entries:,} entries behind that in one place only" if self.entries else ""
        return f"; the archive is there up to {moment(self.archived_at)}{more}"

    @property
    def _of_savepoints(self) -> str:
        if not self.savepoints:
            return f"there are no savepoints yet that {self.place} could have"
        if not self.alone:
            return f"the manifests of all savepoints are in {self.place}"
        several = "1 savepoint is" if len(self.alone) == 1 else f"{len(self.alone):,} savepoints are"
        return f"{several} in one place only, since {moment(moment_of(self.alone[0]))}, and not in {self.place}"


def second_place(place: str, ids: Iterable[str], there: Iterable[str], *, entries: int = 0, archived_at: int | None = None) -> SecondPlace:
    """The second place, where these savepoints exist and the manifests of the others are ``there``. ``entries`` and ``archived_at`` as in the result."""
    known, found = list(ids), set(there)
    alone = tuple(sorted(one for one in known if one not in found))
    return SecondPlace(place=place, savepoints=len(known), alone=alone, entries=entries, archived_at=archived_at)


def mirror_text(plan: MirrorPlan) -> Markdown:
    """The plan for people."""
    return joined(
        [
            md("### Second place of {}", code(plan.application_id)),
            md(""),
            md(
                "{:,} objects with {:,} bytes are missing in {}, {:,} that are there are read and compared.",
                plan.copies,
                plan.bytes,
                plan.place,
                plan.proven,
            ),
            *([md(""), md("Savepoints that are in one place only: {}.", ", ".join(plan.savepoints))] if plan.savepoints else []),
            *(
                part
                for key in plan.different
                for part in (md(""), md("> **Warning:** {} is there with other bytes. It stays as it is.", code(key)))
            ),
            *(part for one in plan.passed_over for part in (md(""), md("> **Warning:** {} is not copied: {}", code(one.key), one.why))),
        ]
    )
