"""Counting in tasks, and the driver's view of them, without Spark: tests/spark has the same with it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms import counting as in_task
from spark_jobs.transforms.counting import count, counting
from spark_jobs.transforms.progress import Board, Doing, begin_phase, reporting
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.progress_store import progress_of_run

RESULT = "app/work/run/load.0001.json"


class Context:
    """Plays a Spark context of one process: an accumulator is a dictionary that tasks update."""

    def accumulator(self, value: dict[int, tuple[int, int]], param: Any) -> Context:
        self.value, self.param = param.zero(value), param
        return self

    def add(self, term: dict[int, tuple[int, int]]) -> None:
        self.value = self.param.addInPlace(self.value, term)


@pytest.fixture
def access(tmp_path: Path) -> JobAccess:
    return JobAccess(connection=None, location=StorageLocation(backend="filesystem", path=str(tmp_path)), credentials=None)


def board(access: JobAccess, shown: list[JobProgress], **seconds: float) -> Board:
    return Board(job="restore", access=access, result_key=RESULT, show=shown.append, **seconds)


def test_nothing_is_counted_where_nobody_wants_to_know() -> None:
    assert begin_phase(Context(), Doing(), 1) is None
    with counting(0, None):
        count(5)
    assert in_task._running.task is None


def test_a_task_that_ends_brings_its_count_along_and_one_that_fails_does_not(access: JobAccess) -> None:
    seen = board(access, [])
    context = Context()
    channel = seen.begin(context, Doing(name="loading", records=30), 3)
    with counting(0, channel):
        count(5, 50)
        count(5, 50)
    with counting(0, channel):
        count(10, 100)
    with pytest.raises(Damaged), counting(1, channel):
        count(7)
        raise Damaged("torn", next_step="none")
    assert context.value == {0: (10, 100)}, "a task that ran twice counts once"
    found = seen.look(access.repository(), time.monotonic())
    assert found is not None
    assert (found.phase, found.records, found.bytes, found.percent, found.tasks_done, found.tasks) == ("loading", 10, 100, 33, 1, 3)
    assert in_task._running.task is None


def test_a_task_that_runs_for_long_is_seen_before_it_ends(access: JobAccess) -> None:
    seen = board(access, [], task_every=0.01)
    channel = seen.begin(Context(), Doing(name="loading", records=100), 1)
    with counting(0, channel):
        count(40, 400)
        deadline, found = time.monotonic() + 60, None
        while (found is None or not found.records) and time.monotonic() < deadline:
            time.sleep(0.02)
            found = seen.look(access.repository(), time.monotonic())
    assert found is not None
    assert (found.records, found.percent, found.tasks_done) == (40, 40, 0)


def test_the_phase_that_moved_last_is_shown(access: JobAccess) -> None:
    seen, first, second = board(access, []), Context(), Context()
    seen.begin(first, Doing(name="loading", records=10), 1)
    first.add({0: (10, 0)})
    repository = access.repository()
    assert seen.look(repository, time.monotonic()).phase == "loading"
    seen.begin(second, Doing(name="reading back", records=10), 1)
    second.add({0: (5, 0)})
    found = seen.look(repository, time.monotonic() + 1)
    assert (found.phase, found.percent) == ("reading back", 50)


def test_a_phase_of_several_jobs_beside_another_is_shown_when_that_is_over_and_counts_all_its_tasks(access: JobAccess) -> None:
    seen, first, second = board(access, []), Context(), Context()
    repository, reading = access.repository(), Doing(name="reading back", records=20, tasks=3)
    seen.begin(first, Doing(name="loading", records=10), 2)
    first.add({0: (5, 0)})
    one, other = seen.begin(second, reading, 1), seen.begin(second, reading, 2)
    now = time.monotonic()
    assert seen.look(repository, now).phase == "loading"
    with counting(0, one):
        count(4)
    with counting(0, other):
        count(6)
    found = seen.look(repository, now + 1)
    assert (found.phase, found.records) == ("loading", 5), "what moved last is beside it"
    first.add({1: (5, 0)})
    found = seen.look(repository, now + 2)
    assert (found.phase, found.records, found.tasks_done, found.tasks) == ("loading", 10, 2, 2)
    with counting(1, other):
        count(10)
    found = seen.look(repository, now + 3)
    assert (found.phase, found.records, found.records_total, found.tasks_done, found.tasks) == ("reading back", 20, 20, 3, 3)


def test_what_is_seen_is_shown_each_time_and_stored_less_often_the_longer_it_takes(access: JobAccess) -> None:
    shown: list[JobProgress] = []
    seen = board(access, shown)
    context = Context()
    seen.begin(context, Doing(name="loading", records=10), 1)
    began, repository = time.monotonic(), access.repository()
    for second in range(0, 3_600, 15):
        now = began + second
        seen.tell(repository, seen.look(repository, now), now)
    assert len(shown) == 240
    assert 50 < seen.stored < 80
    assert progress_of_run(repository, Layout("app"), "run")[0].job == "restore"


def test_a_job_is_watched_while_it_runs_and_not_behind_it(access: JobAccess) -> None:
    shown: list[JobProgress] = []
    seen, context = board(access, shown, every=0.01), Context()
    with reporting(seen):
        channel = begin_phase(context, Doing(name="copying", records=4), 1)
        with counting(0, channel):
            count(1)
        deadline = time.monotonic() + 60
        # The first look may be from before the record was counted.
        while not (shown and shown[-1].records) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert shown[-1].records == 1
    assert begin_phase(context, Doing(), 1) is None
    after = len(shown)
    time.sleep(0.05)
    assert len(shown) == after


def test_what_cannot_be_told_does_not_reach_the_job(access: JobAccess, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_: JobProgress) -> None:
        raise OSError("no space left")

    seen = Board(job="restore", access=access, result_key=RESULT, show=fails, every=0.01)
    with reporting(seen):
        begin_phase(Context(), Doing(name="copying"), 1)
        deadline, said = time.monotonic() + 60, ""
        while "could not be told" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert "How far the job is could not be told: OSError" in said


def test_what_a_task_stores_are_three_numbers(access: JobAccess, tmp_path: Path) -> None:
    channel = board(access, [], task_every=0.01).begin(Context(), Doing(), 1)
    with counting(3, channel):
        count(1)
        deadline = time.monotonic() + 60
        while not list(tmp_path.rglob("3-*.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert set(json.loads(next(tmp_path.rglob("3-*.json")).read_text())) == {"task", "records", "payload_bytes"}


def test_a_repository_that_is_away_stops_no_task(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    nowhere = JobAccess(connection=None, location=StorageLocation(backend="filesystem", path=str(tmp_path / "file")), credentials=None)
    context = Context()
    channel = board(nowhere, [], task_every=0.01).begin(context, Doing(), 1)
    with counting(0, channel):
        count(2)
        time.sleep(0.1)
    assert context.value == {0: (2, 0)}
