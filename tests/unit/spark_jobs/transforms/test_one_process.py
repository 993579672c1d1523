"""Tasks without Spark: the same results in the same order, the same errors, and readers only behind all writers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.job import Job, run_job
from spark_jobs.transforms.counting import count
from spark_jobs.transforms.load import check_single_attempt
from spark_jobs.transforms.one_process import OneProcess
from spark_jobs.transforms.progress import Board, Doing, reporting
from spark_jobs.transforms.task_runner import TaskFailed, run_followed, run_tasks
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.jobs.spec import RangeLost, VerifySpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import StorageLocation


def items(count: int) -> list[RangeLost]:
    return [RangeLost(tp=TopicPartition("t", number), start=0, end=1) for number in range(count)]


@pytest.mark.parametrize("job", ["backup", "restore", "check", "rescale"])
def test_a_job_without_spark_imports_nothing_of_it(job: str) -> None:
    # It would be a third of the time of the process.
    used = (
        f"import sys, spark_jobs.{job}, streams_recovery.kafka.range_copy, streams_recovery.kafka.writer; print('pyspark' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", used], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False"]


def test_results_come_in_the_order_of_the_items() -> None:
    assert run_tasks(OneProcess(), items(9), lambda one: one, RangeLost, lambda one: one.tp.partition) == items(9)
    assert run_tasks(OneProcess(), [], lambda one: one, RangeLost) == []


def test_two_tasks_run_at_once_and_each_counts_its_own(tmp_path: Path) -> None:
    both, access = (
        threading.Barrier(2),
        JobAccess(connection=None, location=StorageLocation(backend="filesystem", path=str(tmp_path)), credentials=None),
    )
    seen = Board(job="backup", access=access, result_key="app/work/run/copy.json", show=lambda _: None)

    def work(one: RangeLost) -> RangeLost:
        both.wait(30)
        for _ in range(1_000):
            count(1 + one.tp.partition, 0)
        both.wait(30)
        return one

    with reporting(seen):
        assert run_tasks(OneProcess(), items(2), work, RangeLost, doing=Doing(name="copying", records=3_000)) == items(2)
    assert seen.phases[0].finished == {0: (1_000, 0), 1: (2_000, 0)}


def test_nothing_begins_after_the_first_error_of_ours_which_is_known_again() -> None:
    begun, both, ended = list[int](), threading.Barrier(2), list[int]()

    def work(one: RangeLost) -> RangeLost:
        begun.append(one.tp.partition)
        both.wait(30)
        if one.tp.partition == 0:
            raise Damaged("a file is broken", next_step="choose another", partition=0)
        time.sleep(0.2)
        ended.append(one.tp.partition)
        return one

    with pytest.raises(TaskFailed) as caught:
        run_tasks(OneProcess(), items(2), work, RangeLost)
    assert (type(caught.value.cause), caught.value.cause.facts) == (Damaged, {"partition": "0"})
    assert ended == [1], "the error is told when nothing runs any more"

    def fail(one: RangeLost) -> RangeLost:
        begun.append(one.tp.partition)
        raise Damaged("a file is broken", next_step="choose another", partition=one.tp.partition)

    begun.clear()
    with pytest.raises(TaskFailed):
        run_tasks(OneProcess(), items(500), fail, RangeLost)
    assert len(begun) < 500

    def both_fail(one: RangeLost) -> RangeLost:
        both.wait(30)
        if one.tp.partition == 0:
            raise ZeroDivisionError
        raise Damaged("a file is broken", next_step="choose another", partition=one.tp.partition)

    with pytest.raises(TaskFailed):
        run_tasks(OneProcess(), items(2), both_fail, RangeLost)


def test_an_error_that_is_not_ours_stays_what_it_was() -> None:
    with pytest.raises(ZeroDivisionError):
        run_tasks(OneProcess(), items(1), lambda _: 1 // 0, RangeLost)  # type: ignore[arg-type, return-value]


def test_readers_follow_when_all_has_been_written() -> None:
    happened: list[str] = []

    def lead(numbered, ended):
        for number, _ in numbered:
            happened.append(f"write {number}")
            ended(number)
        return [one for _, one in numbered]

    def follow(ended):
        happened.extend(f"read {one.tp.partition}" for one in ended)
        return ended

    assert run_followed(OneProcess(), items(2), lead, follow) == (items(2), items(2))
    assert happened == ["write 0", "write 1", "read 0", "read 1"]
    assert run_followed(OneProcess(), [], lead, follow) == ([], [])


def test_a_task_runs_once_so_that_a_load_is_allowed() -> None:
    check_single_attempt(OneProcess())


def test_how_far_it_is_can_be_seen(tmp_path) -> None:
    shown: list[JobProgress] = []
    access = JobAccess(connection=None, location=StorageLocation(backend="filesystem", path=str(tmp_path)), credentials=None)
    board = Board(job="backup", access=access, result_key="app/work/run/copy.json", show=shown.append)
    with reporting(board):
        run_tasks(OneProcess(), items(30), lambda one: one, RangeLost, lambda _: 1_000, Doing(name="copying", records=30))
        seen = board.look(access.repository(), 1e9)
    assert seen is not None
    assert (seen.phase, seen.tasks, seen.tasks_done) == ("copying", 4, 4)


def test_a_job_that_needs_sql_has_no_such_option(capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(name="state", kind=VerifySpec, work=lambda *_: None)
    with pytest.raises(SystemExit):
        run_job(job, ["--without-spark", "--spec", "x", "--receipt", "r", "--repository", "{}"])
    assert "--without-spark" in capsys.readouterr().err
