"""Checks of the golden repositories: every kind of damage is named, and nothing else is."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.transforms.check import check_file
from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import ConfigInvalid, Damaged, NotFound, Refused, RepositoryUnavailable
from streams_recovery.core.jobs.spec import failure_key
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository import check
from streams_recovery.core.repository.check import Cause, CheckReport, CheckResult, CheckSpec
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.words import new_id
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.objects import unpacked
from streams_recovery.storage.range_tables import PartitionRanges
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.repository import make_golden
from tests.support.repository.golden import FIRST, NEWEST, SECOND, SECOND_AT, THIRD, OpenGolden, checked, logs, on, path_of, third
from tests.support.repository.stored import left


@pytest.mark.parametrize(("level", "read", "rows"), [("structure", 0, 0), ("full", 4, 48), ("sample=50%", 2, None), ("sample=1%", 1, None)])
def test_a_good_repository_is_good_and_says_how_much_was_checked(golden: OpenGolden, level: str, read: int, rows: int | None) -> None:
    report = checked(golden("good"), level)
    assert (report.findings, report.savepoints, report.files, report.files_read) == ((), 2, 4, read)
    assert report.good
    assert report.rows_read == rows if rows is not None else report.rows_read > 0
    maintenance.raise_unless_good(report)


@pytest.mark.fault("F9")
@pytest.mark.parametrize(
    ("name", "level", "key", "problem", "cause"),
    [
        ("missing-segment", "structure", NEWEST, "is missing", Cause.MISSING_FILE),
        ("truncated-segment", "structure", NEWEST, r"has \d+ bytes, not \d+", Cause.ALTERED_FILE),
        ("flipped-bit", "full", NEWEST, "has SHA-256", Cause.ALTERED_FILE),
        ("wrong-row-count", "full", NEWEST, "has rows 13, not 12", Cause.ALTERED_FILE),
        ("overlapping-ranges", "structure", "manifest", "ranges of partition 0 that cannot be", Cause.DAMAGED_MANIFEST),
        ("missing-range", "structure", "manifest", "do not tile", Cause.DAMAGED_MANIFEST),
        ("path-escape", "structure", "manifest", "names of attempts that are none", Cause.DAMAGED_MANIFEST),
        ("future-format", "structure", "manifest", "format version", Cause.UNKNOWN_FORMAT),
        ("missing-table", "structure", "manifest", r"range table .* is missing", Cause.DAMAGED_MANIFEST),
        ("altered-table", "structure", "manifest", r"range table .* is not what was written", Cause.DAMAGED_MANIFEST),
        ("torn-manifest", "structure", "manifest", "not a compressed manifest", Cause.DAMAGED_MANIFEST),
        ("manifest-that-is-no-json", "structure", "manifest", "JSON", Cause.DAMAGED_MANIFEST),
    ],
)
def test_each_damage_is_named_and_does_not_hide_the_rest(
    golden: OpenGolden, name: str, level: str, key: str, problem: str, cause: Cause
) -> None:
    report = checked(golden(name), level)
    (found,) = report.findings
    assert key in found.key
    assert re.search(problem, found.problem)
    assert (found.savepoints, found.cause) == ((SECOND,), cause)
    if key == NEWEST:
        assert (found.topic, found.partition, found.start, found.end) == ("golden-totals-changelog", 0, 40, 55)
    if "tile" in problem:
        assert (found.topic, found.partition) == ("golden-totals-changelog", 0)
    assert report.files >= 2, "what the first savepoint needs was checked all the same"
    assert not report.good
    with pytest.raises(Damaged, match="1 findings") as caught:
        maintenance.raise_unless_good(report)
    assert caught.value.next_step == found.cause.next_step
    assert (report.causes, report.exit_code) == ((cause,), cause.exit_code)


def test_a_compacted_savepoint_is_checked_like_any_other(golden: OpenGolden) -> None:
    report = checked(golden("compacted"), "full")
    assert (report.findings, report.savepoints, report.files_read, report.rows_read) == ((), 3, 5, 51)
    assert report.good


def test_what_only_reading_shows_is_not_seen_by_the_structure(golden: OpenGolden) -> None:
    assert checked(golden("flipped-bit"), "structure").good


def test_segments_without_manifests_are_nothing_to_check(golden: OpenGolden) -> None:
    with pytest.raises(NotFound) as caught:
        checked(golden("no-manifest"), "structure")
    assert caught.value.facts == {"application_id": "golden", "segments": 4}


def test_one_savepoint_can_be_checked_alone_and_must_exist(golden: OpenGolden) -> None:
    recovery = golden("missing-segment")
    assert checked(recovery, "full", FIRST).good
    with pytest.raises(NotFound) as caught:
        checked(recovery, "full", "20261121T020000Z-0000000003")
    assert caught.value.facts == {"savepoint": "20261121T020000Z-0000000003"}
    assert caught.value.commands == ("streams-recovery savepoints list golden",)


def test_a_savepoint_that_expires_while_all_are_checked_is_no_finding(golden: OpenGolden) -> None:
    class Vanishing(SavepointStore):
        def ids(self) -> list[str]:
            return [*super().ids(), "20261121T020000Z-0000000003"]

    recovery = golden("good")
    report = checked(replace(recovery, savepoints=Vanishing(recovery.repository, recovery.layout)), "structure")
    assert (report.savepoints, report.findings) == (2, ())


def test_the_verdict_is_kept(golden: OpenGolden) -> None:
    recovery = golden("missing-segment")
    report = checked(recovery, "full")
    kept = AppendLog(recovery.repository, recovery.layout.check(report.check_id), CheckReport)
    assert kept.read_all() == [report]
    ticket = maintenance.plan_check(recovery, savepoint=maintenance.ALL, level="structure", run_id="again")
    for _ in range(2):
        maintenance.conclude_check(recovery, ticket, None)


def test_a_job_that_left_a_file_out_is_not_believed(golden: OpenGolden) -> None:
    recovery = golden("good")
    ticket = maintenance.plan_check(recovery, savepoint=maintenance.ALL, level="full", run_id="r")
    job = maintenance.plan_reading(recovery, ticket)
    assert job.result_key is not None
    report = maintenance.conclude_check(recovery, ticket, left(recovery, job.result_key, CheckResult(files=(), seconds=0)))
    assert [found.problem for found in report.findings] == ["was not read"] * 4
    assert not report.good


@pytest.mark.fault("F20")
def test_the_result_of_another_check_is_not_believed(golden: OpenGolden) -> None:
    recovery = golden("good")
    first, second = (maintenance.plan_check(recovery, savepoint=maintenance.ALL, level="full", run_id=run) for run in ("one", "two"))
    result = left(recovery, str(maintenance.plan_reading(recovery, first).result_key), CheckResult(files=(), seconds=0))
    with pytest.raises(Refused, match="is of another attempt"):
        maintenance.conclude_check(recovery, second, result)


def test_each_attempt_of_the_job_has_its_own_result_and_the_one_that_is_named_counts(golden: OpenGolden) -> None:
    recovery = golden("good")
    ticket = maintenance.plan_check(recovery, savepoint=maintenance.ALL, level="full", run_id="r")
    assert ticket.job.spec is not None
    files = recovery.artifacts.read(CheckSpec, ticket.job.spec).files
    first, second, third = (maintenance.plan_reading(recovery, ticket) for _ in range(3))
    keys = [str(job.result_key) for job in (first, second, third)]
    assert len({*keys, *map(failure_key, keys)}) == 6
    recovery.repository.create(failure_key(keys[0]), b"it was killed")
    done = tuple(check_file(recovery.repository, recovery.layout, wanted) for wanted in files)
    third_result = left(recovery, keys[2], CheckResult(files=done, seconds=0))
    # The second one was taken for dead and ends after all.
    second_result = left(recovery, keys[1], CheckResult(files=(), seconds=0))
    assert maintenance.conclude_check(recovery, ticket, third_result).good
    assert not maintenance.conclude_check(recovery, ticket, second_result).good


@pytest.mark.parametrize(("level", "savepoints", "files"), [("full", 1, 0), ("structure", 1, 0), ("structure", 0, 0), ("full", 1, 3)])
def test_nothing_checked_is_never_good(level: str, savepoints: int, files: int) -> None:
    empty = CheckReport(
        check_id="a",
        application_id="x",
        level=level,
        savepoints=savepoints,
        minimal=0,
        records=0,
        files=files,
        files_read=0,
        rows_read=0,
        findings=(),
    )
    assert not empty.good
    with pytest.raises(Damaged, match="checked nothing"):
        maintenance.raise_unless_good(empty)


@pytest.mark.parametrize("offsets", [[3, 5, 4], [3, 3, 4], [3, 4, 9]])
def test_rows_out_of_order_or_out_of_range_are_damage_whatever_the_hash_says(golden: OpenGolden, offsets: list[int]) -> None:
    recovery = golden("good")
    piece = make_golden.segment(root_of(recovery), TopicPartition("golden-totals-changelog", 2), 3, 6, [3, 4, 5])
    assert piece.file is not None
    path = root_of(recovery) / piece.file.key
    path.unlink()
    odd = make_golden.segment(root_of(recovery), TopicPartition("golden-totals-changelog", 2), 3, 20, offsets)
    assert odd.file is not None
    (root_of(recovery) / odd.file.key).rename(path)
    file = replace(piece.file, bytes=odd.file.bytes, sha256=odd.file.sha256)
    wanted = check.FileToCheck(tp=TopicPartition("t", 2), start=3, end=6, file=file, savepoints=("s",))
    assert any(
        "do not ascend" in problem or "outside [3, 6)" in problem
        for problem in check_file(recovery.repository, recovery.layout, wanted).problems
    )


def root_of(recovery: RecoveryContext) -> Path:
    return Path(str(recovery.config.storage.path))


@pytest.mark.parametrize("text", ["", "Full", "sample", "sample=0%", "sample=101%", "sample=-1%", "10%", "sample=10"])
def test_levels_that_do_not_exist(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="is no level"):
        check.parse_level(text)


@given(percent=st.floats(0.5, 100), count=st.integers(1, 60), gone=st.lists(st.integers(0, 9), max_size=60))
def test_samples_that_follow_each_other_read_every_file_that_stays(percent: float, count: int, gone: list[int]) -> None:
    files, read, progress = [_file(number) for number in range(count)], set[str](), None
    vanishing = dict(zip((one.file.key for one in files), gone, strict=False))
    for turn in range(math.ceil(100 / percent)):
        present = [one for one in files if vanishing.get(one.file.key, 10**9) >= turn] or files[:1]
        backwards = check.next_sample(present[::-1], percent, progress, now=turn * DAY_MS)
        chosen, progress = check.next_sample(present, percent, progress, now=turn * DAY_MS)
        assert backwards == (chosen, progress)
        assert 1 <= len(chosen) <= math.ceil(len(present) * percent / 100)
        read |= {one.file.key for one in chosen}
    assert {one.file.key for one in files if one.file.key not in vanishing} <= read


def test_how_far_samples_have_come_is_counted_and_a_round_begins_again() -> None:
    files = [_file(number) for number in range(10)]
    progress = None
    for turn, expected in enumerate(
        [(4, 1, 0, None), (8, 2, 0, None), (10, 3, 0, 0), (4, 1, 3, 0), (8, 2, 3, 0), (10, 3, 3, 3), (4, 1, 6, 3)]
    ):
        _, progress = check.next_sample(files, 40.0, progress, now=turn)
        assert progress is not None
        assert (progress.read, progress.checks, progress.began_at, progress.whole_since) == expected
    _, everything = check.next_sample(files, 100.0, progress, now=9)
    assert everything is not None
    assert (everything.read, everything.whole_since) == (10, 9)
    assert str(everything) == "read by samples: 10 of 10 files in 1 checks since 1970-01-01, every file since 1970-01-01"
    assert check.next_sample(files, 0.0, progress, now=9) == ((), progress), "a check that reads no file leaves it as it was"


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    "forged", [{"upto": "~"}, {"upto": ""}, {"began_at": 1 << 62}, {"began_at": -(1 << 62)}, {"whole_since": 1 << 62}, {"checks": -1}]
)
def test_progress_that_no_check_has_written_is_not_believed(forged: dict[str, Any]) -> None:
    files = [_file(number) for number in range(10)]
    first, progress = check.next_sample(files, 40.0, None, now=5)
    assert progress is not None
    assert check.next_sample(files, 40.0, replace(progress, **forged), now=5) == (first, progress)


@given(percent=st.floats(0.1, 100))
def test_a_sample_of_one_savepoint_is_chosen_by_the_check_and_never_empty(percent: float) -> None:
    files = [_file(number) for number in range(20)]
    chosen = check.sampled(files, percent, "a")
    assert chosen == check.sampled(list(reversed(files)), percent, "a")
    assert len({one.file.key for one in chosen}) == len(chosen) == math.ceil(20 * percent / 100)
    assert {check.sampled(files, 10.0, str(number)) for number in range(99)} != {check.sampled(files, 10.0, "0")}


def test_weekly_checks_read_everything_and_say_so(golden: OpenGolden) -> None:
    rounds, read = [], 0
    for week in range(4):
        recovery = golden("good", now=SECOND_AT + 7 * week * DAY_MS)
        report = checked(recovery, "sample=25%")
        assert report.sampling is not None
        rounds.append((report.sampling.read, report.sampling.checks))
        read += report.files_read
    assert rounds[-1] == (report.files, 4)
    assert (read, report.sampling.files) == (report.files, report.files)
    assert checked(recovery, "structure").sampling == report.sampling
    ahead = new_id(SECOND_AT + 3_650 * DAY_MS, "forged")
    AppendLog(recovery.repository, recovery.layout.check(ahead), CheckReport).append(replace(report, check_id=ahead, sampling=None))
    again = checked(recovery, "sample=25%").sampling
    assert again is not None
    assert (again.checks, again.whole_since) == (1, SECOND_AT), "an id ten years ahead is not the newest check"


def _file(number: int) -> check.FileToCheck:
    from tests.support.examples.savepoints import segment

    piece = segment(number, number + 1, [number], key=f"k{number}")
    assert piece.file is not None
    return check.FileToCheck(tp=TopicPartition("t", 0), start=number, end=number + 1, file=piece.file, savepoints=("s",))


@pytest.mark.fault("F10")
@pytest.mark.parametrize("bits", [100, pytest.param(1_000, marks=pytest.mark.deep)])
def test_flipped_bits_are_all_found(golden: OpenGolden, bits: int) -> None:
    recovery = golden("good")
    root = Path(str(recovery.config.storage.path)) / "golden"
    files = [path for part in ("segments", "savepoints") for path in (root / part).rglob("*") if path.is_file()]
    dice = random.Random(20261121)
    missed = []
    for _ in range(bits):
        path = dice.choice(files)
        before = path.read_bytes()
        bit = dice.randrange(len(before) * 8)
        data = bytearray(before)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        if not _found(recovery, path) and not _means_the_same(bytes(data), before):
            missed.append((path.name, bit))
        path.write_bytes(before)
    assert missed == []
    assert checked(recovery, "full").good


def _means_the_same(data: bytes, before: bytes) -> bool:
    """Some bits of a zstd frame can have either value: the checksum is that of the content, and a manifest without a record of its publication has no
    other.
    """
    try:
        return unpacked(data, "a key") == unpacked(before, "a key")
    except Damaged:
        return False


def _found(recovery: RecoveryContext, path: Path) -> bool:
    """Whether the damaged file is noticed by what reads it: its manifest's reader, or the check of one file."""
    if path.name.endswith(".parquet"):
        opened: dict[str, PartitionRanges] = {}
        wanted = next(
            w
            for w in check.files_of([recovery.savepoints.read(one, opened) for one in (FIRST, SECOND)], opened)[0]
            if w.file.key.endswith(path.name)
        )
        return bool(check_file(recovery.repository, recovery.layout, wanted).problems)
    try:
        recovery.savepoints.read(path.parent.name)
    except Damaged:
        return True
    return False


class Refusing(Repository):
    """A real repository that will not give away some objects, or answers nothing at all."""

    def __init__(self, real: Repository, *refused: str, error: type[ConfigInvalid | RepositoryUnavailable], down: bool = False) -> None:
        super().__init__(real.location)
        self.refused, self.error, self.down = refused, error, down

    def _check(self, key: str) -> None:
        if any(part in key for part in self.refused):
            raise self.error(f"reading {key} failed", next_step="see why")

    def get(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        self._check(key)
        return super().get(key, most_bytes=most_bytes)

    def open(self, key: str, *, size: int | None = None) -> BinaryIO:
        self._check(key)
        return super().open(key, size=size)

    def keys(self, prefix: str) -> Iterator[str]:
        if self.down:
            raise RepositoryUnavailable("nobody answers", next_step="see why")
        return super().keys(prefix)


@pytest.mark.parametrize("error", [ConfigInvalid, RepositoryUnavailable])
@pytest.mark.parametrize("what", ["a segment", "a manifest", "a record", "a log's entry"])
def test_what_cannot_be_read_is_said_and_everything_else_is_read(
    golden: OpenGolden, what: str, error: type[ConfigInvalid | RepositoryUnavailable]
) -> None:
    recovery = golden("flipped-bit", now=SECOND_AT)
    third(recovery)
    logs(recovery)
    keys = {
        "a segment": "golden-totals-changelog/1/",
        "a manifest": recovery.layout.manifest(FIRST),
        "a record": recovery.layout.published(THIRD),
        "a log's entry": f"{recovery.layout.pins}000000000002.json",
    }
    report = checked(on(recovery, Refusing(recovery.repository, keys[what], error=error)), "full")
    assert report.causes == (Cause.ALTERED_FILE, Cause.NOT_READ), "the damage beside it is found, and counts for more"
    (unread,) = [found for found in report.findings if found.cause is Cause.NOT_READ]
    assert keys[what] in unread.key
    assert "failed" in unread.problem
    altered = [found for found in report.findings if found.cause is Cause.ALTERED_FILE]
    assert [NEWEST in found.key for found in altered] == [True]
    assert report.files_read == (3 if what == "a segment" else 4)
    assert report.savepoints == (2 if what == "a manifest" else 3)


def test_only_unread_is_not_good_either(golden: OpenGolden) -> None:
    recovery = golden("good")
    report = checked(on(recovery, Refusing(recovery.repository, "golden-totals-changelog/1/", error=ConfigInvalid)), "full")
    assert (report.good, report.exit_code, report.files_read) == (False, 22, 3)


def test_a_repository_that_answers_nothing_ends_the_check(golden: OpenGolden) -> None:
    recovery = golden("good")
    ticket = maintenance.plan_check(recovery, savepoint=SECOND, level="full", run_id="r")
    assert ticket.job.spec is not None
    (wanted, *_) = recovery.artifacts.read(CheckSpec, ticket.job.spec).files
    for key, read in (
        ("manifest.json.zst", lambda down: maintenance.plan_check(down, savepoint=SECOND, level="full", run_id="r")),
        ("segments/", lambda down: check_file(down.repository, down.layout, wanted)),
    ):
        with pytest.raises(RepositoryUnavailable, match="nobody answers"):
            read(on(recovery, Refusing(recovery.repository, key, error=RepositoryUnavailable, down=True)))


def test_safety_savepoints_are_checked_like_any_other(golden: OpenGolden) -> None:
    recovery = golden("missing-segment")
    saved = replace(recovery.savepoints.read(SECOND), savepoint_id=THIRD)
    path = path_of(recovery, recovery.safety.publish(saved))
    report = checked(recovery, "structure")
    (missing,) = report.findings
    assert (report.savepoints, missing.savepoints) == (3, (SECOND, THIRD))
    assert checked(recovery, "structure", THIRD).exit_code == 26
    path.unlink()
    (lost, _) = checked(recovery, "structure").findings
    assert (lost.cause, lost.key) == (Cause.LOST_MANIFEST, recovery.layout.safety.manifest(THIRD))
    assert "safety/" in lost.key
