"""Tasks of finished runs that somebody clears, one after the other, and a backfill of hours that are over: a running application never notices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from embedded.airflow import Airflow
from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery.core.kafka_types import TopicPartition
from tests.support.stack.dag_runs import PATIENCE, Play
from tests.support.stack.stage import ORDERS, Stage, stage

BACKUP, RESTORE = f"streams_backup_{APPLICATION}", "streams_restore_full"
MORE = 500

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    with stage(tmp_path_factory.mktemp("stage")) as on:
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client)
        client.close()


def cleared(play: Play, dag_id: str, run_id: str, task_id: str, *, downstream: bool = False) -> tuple[str, str]:
    """What a person does on the page of a run: one task again, and the run goes to its end. Its state and that of the task."""
    body = {
        "dry_run": False,
        "dag_run_id": run_id,
        "task_ids": [task_id],
        "only_failed": False,
        "reset_dag_runs": True,
        "include_downstream": downstream,
    }
    play.airflow._call("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)
    state = play.airflow.wait(dag_id, run_id, seconds=PATIENCE, on_change=lambda *_: None, approve=lambda _: True)
    return state, play.airflow.tasks(dag_id, run_id)[task_id]


@dataclass(frozen=True)
class Standing:
    """All that a task must not touch when its turn is over."""

    instances: dict[str, str]
    topics: dict[str, str]
    outputs: dict[TopicPartition, int]
    savepoints: tuple[str, ...]
    held: tuple[str, ...]


def standing(on: Stage) -> Standing:
    recovery = on.recovery
    outputs = recovery.cluster.describe_topics(recovery.config.topics.outputs)
    ends = [TopicPartition(name, number) for name, found in outputs.items() for number in range(found.partitions)]
    return Standing(
        instances=on.await_running(),
        topics={name: found.topic_id for name, found in recovery.cluster.describe_topics(on.internal_topics()).items()},
        outputs=recovery.cluster.high_watermarks(ends),
        savepoints=(*recovery.savepoints.ids(), *recovery.safety.ids()),
        held=tuple(on.held()),
    )


def committed(on: Stage) -> dict[TopicPartition, int]:
    groups, application_id = on.recovery.groups, on.recovery.application_id
    found = groups.committed(application_id, groups.committed_partitions(application_id))
    return {tp: one.offset for tp, one in found.items() if one is not None}


def is_untouched(play: Play, dag_id: str, run_id: str) -> dict[str, str]:
    """Each task of a finished run again, the last one first so that all before it have succeeded when it is its turn: nothing changes for the
    application. Returns the tasks' last states.
    """
    on, states = play.on, dict[str, str]()
    before, offsets = standing(on), committed(on)
    assert before.held == ()
    found = play.airflow._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances").json()["task_instances"]
    for task_id in [task["task_id"] for task in sorted(found, key=lambda task: str(task["start_date"]), reverse=True)]:
        if task_id == "begin":
            continue  # Airflow takes it again with each of the others; see below
        _, states[task_id] = cleared(play, dag_id, run_id, task_id)
        assert standing(on) == before, f"{task_id} of {dag_id} {states[task_id]}"
        now = committed(on)
        assert {tp: (offset, now[tp]) for tp, offset in offsets.items() if now[tp] < offset} == {}, f"{task_id} of {dag_id} rewound it"
        sys.stdout.write(f"{dag_id} {task_id} again: {states[task_id]}\n")
    return states


def goes_on(on: Stage) -> None:
    """The application counts everything once."""
    on.generator.feed(MORE)
    wait_counted(on.recovery, on.generator.acknowledged, seconds=180)
    wrong = differences(on.recovery, truth(on.generator.world, range(on.generator.sent)))
    assert set(wrong.values()) == {0}, wrong


@pytest.mark.fault("F20")
def test_a_finished_run_s_tasks_can_be_cleared_one_by_one(play: Play) -> None:
    on = play.on

    # A savepoint's.
    saved = play.succeed(BACKUP)
    goes_on(on)
    states = is_untouched(play, BACKUP, saved)
    # It holds the application once more, lets it go, and what it took is published by nobody.
    assert (states["capture_cut"], states["copy_records"], states["publish"]) == ("success", "failed", "failed"), states
    goes_on(on)

    # All of it from its beginning: a run has one savepoint, and whoever wants another triggers another run.
    ids = on.recovery.savepoints.ids()
    state, _ = cleared(play, BACKUP, saved, "begin", downstream=True)
    on.await_running()
    assert (state, on.recovery.savepoints.ids(), on.held()) == ("failed", ids, [])
    goes_on(on)

    # A restore's.
    destroy(on.recovery)
    restored = play.succeed(RESTORE, application=APPLICATION)
    goes_on(on)
    states = is_untouched(play, RESTORE, restored)
    # With each task Airflow clears the one that takes the lock, and that one refuses: what was approved is not what would happen now.
    assert states["open_restore"] == "failed"
    after = ("stop_application", "prepare_topics", "load_records", "reset_consumer_group", "wipe_state", "start_application", "finish")
    assert {states[name] for name in after} == {"upstream_failed"}, states
    goes_on(on)
    assert on.generator.sent > ORDERS
