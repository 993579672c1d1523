"""Checking a repository: is everything that its savepoints name still there, and still what was written?

Levels: *structure* reads manifests and asks for every file's size, *full* reads every file, *sample* a share of them, and each check the share behind that of
the check before it. A verdict counts what was checked; one that checked nothing is not good. Each kind of finding has its next step.
"""

from __future__ import annotations

import enum
import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from streams_recovery.core.errors import ConfigInvalid, Damaged, Forged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, SegmentFile
from streams_recovery.core.repository.retention import KeptWork
from streams_recovery.core.words import LATEST_MS, count, first_names

EVERYTHING = 100.0
# Digits of the number in the name of a log's entry.
_DIGITS: Final = 12
_NUMBER: Final = re.compile(r"[0-9]{12}")
_SAMPLE = re.compile(r"sample=(\d{1,3}(?:\.\d+)?)%")
_HASH = re.compile(r"[0-9a-f]{64}")
_FIRST_EXIT_CODE: Final = 20
_PUT_BACK: Final = "put it back from a copy of the repository, or from an older version of the object where the bucket keeps them"


class Cause(enum.StrEnum):
    """The reason why a repository is not good, from what says least to what is worst. ``UNREACHABLE`` ends a check; the others are findings or verdicts."""

    UNREACHABLE = "repository-unreachable"
    NOTHING_CHECKED = "nothing-checked"
    NOT_READ = "not-read"
    DAMAGED_RECORD = "damaged-record"
    UNKNOWN_FORMAT = "unknown-format"
    ALTERED_FILE = "altered-file"
    MISSING_FILE = "missing-file"
    DAMAGED_MANIFEST = "damaged-manifest"
    LOST_MANIFEST = "lost-manifest"
    FORGED = "forged"

    @property
    def exit_code(self) -> int:
        """The exit code of ``verify`` when nothing worse was found. A greater one is worse."""
        return _FIRST_EXIT_CODE + list(Cause).index(self)

    @property
    def next_step(self) -> str:
        return _NEXT_STEPS[self]


_NEXT_STEPS: Final = {
    Cause.UNREACHABLE: "check that the store can be reached, then check again: nothing is known of the savepoints",
    Cause.NOTHING_CHECKED: "check the storage section of the configuration; a repository without files cannot restore anything",
    Cause.NOT_READ: "correct the rights or the store, then check again: nothing is known of what could not be read",
    Cause.DAMAGED_RECORD: f"{_PUT_BACK}, and find out who deletes there: runs that need this log are refused until then",
    Cause.UNKNOWN_FORMAT: "check with the release of this software that wrote the savepoint, or a newer one",
    Cause.ALTERED_FILE: f"{_PUT_BACK}, and take a new savepoint now; those named cannot be trusted",
    Cause.MISSING_FILE: f"{_PUT_BACK}, and take a new savepoint now; those named cannot be trusted",
    Cause.DAMAGED_MANIFEST: f"{_PUT_BACK}, and take a new savepoint now; those named cannot be trusted",
    Cause.LOST_MANIFEST: f"{_PUT_BACK} and take a new savepoint now; when it is lost for good, docs/format.md says how to give it up",
    Cause.FORGED: "find out who can write to this repository, then remove it: no run uses it. If it is older than the seals, `streams-recovery seal` adopts it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. Without a topic it concerns a manifest or a record; ``savepoints`` cannot be restored in full because of it."""

    cause: Cause
    key: str
    problem: str
    savepoints: tuple[str, ...]
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        offsets = f", offsets {self.start} to {self.end}" if self.start is not None else ""
        where = f" ({self.topic}-{self.partition}{offsets})" if self.topic is not None else ""
        needed = f"; needed by {first_names(self.savepoints)}" if self.savepoints else ""
        return f"{self.cause}: {self.key}{where}: {self.problem}{needed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLevel:
    """The depth of a check. ``percent`` of the files are read whole: 0 for structure, 100 for full."""

    name: str
    percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToCheck:
    """A file and the range ``[start, end)`` it stands for. ``savepoints`` are the ids of those that need it."""

    tp: TopicPartition
    start: int
    end: int
    file: SegmentFile
    savepoints: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChecked:
    """One file that was to be read whole. ``rows`` were seen; ``cause`` is None when it is what its manifests say, else ``problems`` say more."""

    key: str
    rows: int
    cause: Cause | None
    problems: tuple[str, ...]

    @property
    def read(self) -> bool:
        """True when something was read, be it good or bad."""
        return self.cause not in (Cause.NOT_READ, Cause.MISSING_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """Files for a Spark job to read."""

    application_id: str
    files: tuple[FileToCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of the job, a row a file."""

    files: tuple[FileChecked, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProgress:
    """The progress of samples. They go through the files of all savepoints in rounds, in the order of the SHA-256 of their keys. ``upto`` is that of the
    last file that was read. In this round ``read`` of ``files`` were, in ``checks`` checks since ``began_at`` (ms). ``whole_since`` is when the last round
    that came to its end began, None before the first one has: every file that is older was read since then.
    """

    upto: str
    read: int
    files: int
    checks: int
    began_at: int
    whole_since: int | None

    def __str__(self) -> str:
        whole = f", every file since {_day(self.whole_since)}" if self.whole_since is not None else ""
        return f"read by samples: {self.read:,} of {self.files:,} files in {self.checks} checks since {_day(self.began_at)}{whole}"

    def believed(self, now: int) -> bool:
        """False for what no check has written: the next sample begins at the beginning then."""
        times = (self.began_at, self.began_at if self.whole_since is None else self.whole_since)
        return _HASH.fullmatch(self.upto) is not None and min(*times, self.checks) >= 0 and max(times) <= now + LATEST_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """Objects that no savepoint needs and that the next expiry removes: artifacts of ``runs`` that are over, and ``staged`` files of writers that were killed.
    Only the first of each are named. ``kept`` are runs whose artifacts are as old and stay, each with the reason.
    """

    runs: tuple[str, ...]
    run_count: int
    run_bytes: int
    staged: tuple[str, ...]
    staged_count: int
    staged_bytes: int
    kept: tuple[KeptWork, ...]

    def lines(self) -> Iterator[str]:
        if self.run_count:
            yield (
                f"the next expiry removes the work of {self.run_count:,} runs that are over, with {self.run_bytes:,} bytes, "
                f"such as {', '.join(self.runs)}"
            )
        if self.staged_count:
            yield (
                f"the next expiry removes {self.staged_count:,} files of writers that were killed, with {self.staged_bytes:,} bytes, "
                f"such as {', '.join(self.staged)}"
            )
        yield from (f"the work of run {one.run} stays: {one.why}" for one in self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureFacts:
    """Facts from manifests and records. ``savepoints`` manifests and ``records`` (entries of logs, and what was written when savepoints were published) were
    read. ``minimal`` of the savepoints need no files. ``sampling`` is how far samples have come, None while none was taken; ``left_behind`` is None for a
    check of a single savepoint.
    """

    savepoints: int
    minimal: int
    records: int
    findings: tuple[Finding, ...]
    sampling: SampleProgress | None = None
    left_behind: LeftBehind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(StructureFacts):
    """The verdict with its counts. ``files`` were found with their size, ``files_read`` of them read whole with ``rows_read`` rows."""

    check_id: str
    application_id: str
    level: str
    files: int
    files_read: int
    rows_read: int

    @property
    def counted(self) -> str:
        """What was checked."""
        return (
            f"{count(self.savepoints)} savepoints with those taken before restores, {count(self.records)} entries of logs, {self.files_text}, "
            f"{count(self.files_read)} of them read with {count(self.rows_read)} rows"
        )

    @property
    def files_text(self) -> str:
        """How many files were checked."""
        return f"{count(self.files)} files"

    @property
    def checked_nothing(self) -> bool:
        """True when there was nothing to check, or the level demanded reading and nothing was read. Where all savepoints are minimal, and no other
        topic is archived, manifests are all there is.
        """
        if self.files == 0:
            return self.savepoints == 0 or self.minimal < self.savepoints
        return self.savepoints == 0 or (self.level != "structure" and self.files_read == 0)

    @property
    def good(self) -> bool:
        """True when something was checked and nothing was found."""
        return not self.causes

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Reasons why it is not good, the worst first."""
        found = {finding.cause for finding in self.findings} | ({Cause.NOTHING_CHECKED} if self.checked_nothing else set())
        return tuple(sorted(found, key=lambda cause: -cause.exit_code))

    @property
    def exit_code(self) -> int:
        """The exit code of the worst cause, 0 when the repository is good."""
        return self.causes[0].exit_code if self.causes else 0


def parse_level(text: str) -> CheckLevel:
    """``structure``, ``full`` or ``sample=10%``. Raises ``ConfigInvalid``."""
    if text in ("structure", "full"):
        return CheckLevel(name=text, percent=EVERYTHING if text == "full" else 0.0)
    found = _SAMPLE.fullmatch(text)
    if found is None or not 0 < float(found[1]) <= EVERYTHING:
        raise ConfigInvalid(f"{text[:40]!r} is no level", next_step="use structure, full, or a share such as sample=10%")
    return CheckLevel(name=text, percent=float(found[1]))


def files_of(
    manifests: Iterable[Manifest], tables: Mapping[str, Mapping[int, Sequence[CopiedRange]]]
) -> tuple[list[FileToCheck], list[Finding]]:
    """Every file that these savepoints need, once each, and a finding for each that two of their ``tables``, by hash, describe differently. A table is gone
    through once, however many savepoints name it.
    """
    users: dict[tuple[str, str], list[str]] = {}
    for manifest in manifests:
        for topic in manifest.topics:
            for ref in topic.tables:
                users.setdefault((topic.name, ref.sha256), []).append(manifest.savepoint_id)
    known: dict[str, FileToCheck] = {}
    findings = []
    both: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}
    for (name, sha256), named in users.items():
        savepoints = tuple(named)
        for wanted in _files(name, tables[sha256], savepoints):
            before = known.get(wanted.file.key)
            if before is not None:
                # One tuple for all files of two tables.
                pair = (before.savepoints, savepoints)
                wanted = replace(wanted, savepoints=both.setdefault(pair, tuple(sorted({*pair[0], *pair[1]}))))  # noqa: PLW2901
                if _described(before) != _described(wanted):
                    findings.append(finding(wanted, Cause.DAMAGED_MANIFEST, "savepoints describe this file differently"))
            known[wanted.file.key] = wanted
    return list(known.values()), findings


def sampled(files: Sequence[FileToCheck], percent: float, chosen_by: str) -> tuple[FileToCheck, ...]:
    """A share of ``files`` to read, at least one of them: another one for each name in ``chosen_by``."""
    ranked = sorted(files, key=_place)
    begin = hashlib.sha256(chosen_by.encode()).hexdigest()
    return tuple([*(one for one in ranked if _place(one) > begin), *ranked][: _share(len(files), percent)])


def next_sample(
    files: Sequence[FileToCheck], percent: float, before: SampleProgress | None, *, now: int
) -> tuple[tuple[FileToCheck, ...], SampleProgress | None]:
    """The share of ``files`` to read after what samples have read ``before``, at least one of them, and how far they have come then. As many checks as
    shares make a whole, such as ten of 10 %, read every file that is there all the time.
    """
    count = _share(len(files), percent)
    if count == 0:
        return (), before
    ranked = sorted(files, key=_place)
    goes_on = before if before is not None and before.believed(now) and count < len(ranked) else None
    left = [one for one in ranked if goes_on is None or _place(one) > goes_on.upto]
    if not left:
        left, begins = ranked, None
    else:
        begins = goes_on
    chosen = tuple(left[:count])
    began_at = begins.began_at if begins is not None else now
    read = len(ranked) - len(left) + len(chosen)
    known = goes_on.whole_since if goes_on is not None else None
    return chosen, SampleProgress(
        upto=_place(chosen[-1]),
        read=read,
        files=len(ranked),
        checks=begins.checks + 1 if begins is not None else 1,
        began_at=began_at,
        whole_since=began_at if read == len(ranked) else known,
    )


def size_problem(wanted: FileToCheck, size: int | None) -> Finding | None:
    """The problem with a file of this size in the repository; None as ``size`` means that it is not there."""
    if size is None:
        return finding(wanted, Cause.MISSING_FILE, "is missing")
    return None if size == wanted.file.bytes else finding(wanted, Cause.ALTERED_FILE, f"has {size} bytes, not {wanted.file.bytes}")


def content_problems(wanted: FileToCheck, seen: SegmentFile, *, ascending: bool) -> tuple[str, ...]:
    """Differences between the rows that were ``seen`` in a file and what its manifest says of them."""
    fields = ("rows", "first_offset", "last_offset", "min_timestamp", "max_timestamp", "payload_bytes", "largest_record")
    found = [
        f"has {name} {getattr(seen, name)}, not {getattr(wanted.file, name)}"
        for name in fields
        if getattr(seen, name) != getattr(wanted.file, name)
    ]
    if not ascending:
        found.append("has offsets that do not ascend")
    if seen.rows and not wanted.start <= seen.first_offset <= seen.last_offset < wanted.end:
        found.append(f"has offsets {seen.first_offset} to {seen.last_offset}, outside [{wanted.start}, {wanted.end})")
    return tuple(found)


def findings_of(read: Sequence[FileToCheck], checked: Mapping[str, FileChecked]) -> list[Finding]:
    """Findings about the files that were to be read. One that no task reported on is a finding too."""
    found = []
    for wanted in read:
        done = checked.get(wanted.file.key)
        if done is None:
            found.append(finding(wanted, Cause.NOT_READ, "was not read"))
        elif done.cause is not None:
            found += [finding(wanted, done.cause, problem) for problem in done.problems]
    return found


def finding(wanted: FileToCheck, cause: Cause, problem: str) -> Finding:
    """A finding about a file."""
    return Finding(
        cause=cause,
        key=wanted.file.key,
        problem=problem,
        savepoints=wanted.savepoints,
        topic=wanted.tp.topic,
        partition=wanted.tp.partition,
        start=wanted.start,
        end=wanted.end,
    )


def manifest_finding(key: str, savepoint_id: str, error: Damaged) -> Finding:
    """A finding about a manifest, with the partition that its reader complains of."""
    topic, partition = error.facts.get("topic"), error.facts.get("partition")
    # A version that is no number was not written by any release.
    newer = isinstance(error.facts.get("version"), int)
    return Finding(
        cause=Cause.UNKNOWN_FORMAT if newer else cause_of(error, Cause.DAMAGED_MANIFEST),
        key=key,
        problem=error.reason,
        savepoints=(savepoint_id,),
        topic=topic if isinstance(topic, str) else None,
        partition=partition if isinstance(partition, int) else None,
    )


def lost_manifests(
    alive: Collection[str], expired: Collection[str], *, published: Collection[str], pinned: Collection[str], in_use: Collection[str]
) -> dict[str, str]:
    """Savepoints that must exist and do not, with what proves it.

    ``alive`` have a manifest, ``expired`` a copy of one that expiry made. ``published`` have the record that is written after the manifest and
    goes only when the savepoint has expired and its copy goes, too. Expiry passes over what is ``pinned``, or ``in_use`` by an unfinished restore.
    A later savepoint's parent proves nothing: savepoints may expire before those that share their files.
    """
    why = dict.fromkeys(set(published) - set(expired), "it was published and has not expired")
    why |= dict.fromkeys(pinned, "it is pinned, so no expiry removed it")
    why |= dict.fromkeys(in_use, "an unfinished restore needs it, so no expiry removed it")
    copied = "; a copy of it is under expired/"
    return {
        savepoint_id: f"is gone: {why[savepoint_id]}{copied if savepoint_id in expired else ''}"
        for savepoint_id in sorted(set(why) - set(alive))
    }


def log_problems(prefix: str, keys: Collection[str], *, shortened: bool, begins: Callable[[str], bool] = lambda _: False) -> dict[str, str]:
    """Problems with the names of a numbered log's entries, by key. A ``shortened`` log may begin later than 1, and numbers may be missing before an entry that
    ``begins`` the log anew, asked by its key. That the newest entries are gone cannot be seen.
    """
    stems = {key: key.removeprefix(prefix).removesuffix(".json") for key in keys}
    numbers = sorted(int(stem) for stem in stems.values() if _NUMBER.fullmatch(stem))
    problems = {key: "is no entry of this log" for key, stem in stems.items() if not _NUMBER.fullmatch(stem)}
    for before, after in pairwise(numbers if shortened else [0, *numbers]):
        first, last = before + 1, after - 1
        if first <= last and not begins(f"{prefix}{after:0{_DIGITS}}.json"):
            others = f", and so are all up to number {last}" if first < last else ""
            problems[f"{prefix}{first:0{_DIGITS}}.json"] = f"is missing{others}; entry {after} is there"
    return problems


def worst_first(findings: Collection[Finding]) -> list[Finding]:
    """The worst ones first, each kind in the order in which it was found."""
    return sorted(findings, key=lambda found: -found.cause.exit_code)


def cause_of(error: Damaged, otherwise: Cause) -> Cause:
    """``FORGED`` for a record without the seal of a permitted writer, else ``otherwise``."""
    return Cause.FORGED if isinstance(error, Forged) else otherwise


def _files(topic: str, table: Mapping[int, Sequence[CopiedRange]], savepoints: tuple[str, ...]) -> Iterator[FileToCheck]:
    for partition, ranges in table.items():
        for piece in ranges:
            if piece.file is not None:
                yield FileToCheck(
                    tp=TopicPartition(topic, partition), start=piece.start, end=piece.end, file=piece.file, savepoints=savepoints
                )


def _described(wanted: FileToCheck) -> tuple[object, ...]:
    return (wanted.tp, wanted.start, wanted.end, wanted.file)


def _place(wanted: FileToCheck) -> str:
    return hashlib.sha256(wanted.file.key.encode()).hexdigest()


def _share(files: int, percent: float) -> int:
    return min(files, math.ceil(files * percent / 100)) if percent > 0 else 0


def _day(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d}"
