"""Tasks without Spark: the same results in the same order, the same errors, and readers only behind all writers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.job import Job, run_job
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


@pytest.mark.parametrize("job", ["backup", "restore", "check"])
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


def test_the_first_error_of_ours_ends_all_and_is_known_again() -> None:
    done = []

    def work(one: RangeLost) -> RangeLost:
        done.append(one.tp.partition)
        if one.tp.partition == 2:
            raise Damaged("a file is broken", next_step="choose another", partition=2)
        return one

    with pytest.raises(TaskFailed) as caught:
        run_tasks(OneProcess(), items(5), work, RangeLost)
    assert (type(caught.value.cause), caught.value.cause.facts, done) == (Damaged, {"partition": "2"}, [0, 1, 2])


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
    assert (seen.phase, seen.tasks, seen.tasks_done) == ("copying", 3, 3)


def test_a_job_that_needs_sql_has_no_such_option(capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(name="state", kind=VerifySpec, work=lambda *_: None)
    with pytest.raises(SystemExit):
        run_job(job, ["--without-spark", "--spec", "x", "--receipt", "r", "--repository", "{}"])
    assert "--without-spark" in capsys.readouterr().err
