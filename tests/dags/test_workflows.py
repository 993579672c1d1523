"""Each DAG takes the steps of one workflow, all of them, in their order and as the workflow says: the command line takes the same ones."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.task.priority_strategy import get_airflow_priority_weight_strategies

from streams_recovery import workflows
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.request import Safeguards, SafetyPolicy
from streams_recovery.operations.restore.strategies import (
    STRATEGIES,
    AsOfMoment,
    Failover,
    OfInterval,
    Rebuild,
    Rescale,
    RestoreTopics,
    UpgradeInPlace,
)
from streams_recovery.operators.savepoint import CaptureCutOperator
from streams_recovery.operators.spark import CopyRecordsOperator
from streams_recovery.workflows import maintenance, restore, rollout, sandbox, savepoint
from streams_recovery.workflows.maintenance import BEGIN, COMPARE_OUTPUTS, CONCLUDE, OUTPUTS, SCHEDULED_RUN, START, STOP
from streams_recovery.workflows.step import JobStep, Step, When, Workflow
from tests.support.airflow.operators import modules, operator_classes
from tests.support.airflow.parsed_dags import RESTORE_DAGS

PROJECT = Path(__file__).resolve().parents[2]
WORKFLOWS: dict[tuple[str, str], Workflow[Any]] = {
    ("streams_backup_order-processing", ""): savepoint.SAVEPOINT,
    ("streams_archive_order-processing", ""): savepoint.ARCHIVE,
    **{(dag_id, ""): restore.workflow_of(strategy) for dag_id, strategy in RESTORE_DAGS.items()},
    ("streams_upgrade", "roll_back."): restore.FROM_SAVEPOINT,
    ("streams_clone", "clone."): restore.FROM_SAVEPOINT,
    ("streams_clone", "cut_over."): rollout.CUTOVER,
    ("streams_clone", "retire."): rollout.RETIREMENT,
    ("streams_clone", "upgrade."): rollout.UPGRADE,
    ("streams_drill_order-processing", ""): sandbox.DRILL,
    ("streams_reprocess_order-processing", ""): sandbox.INTERVAL,
    ("streams_check_order-processing", ""): maintenance.CHECK,
    ("streams_expire_order-processing", ""): maintenance.EXPIRY,
    ("streams_expire_order-processing", "merge."): maintenance.COMPACTION,
    ("streams_mirror_order-processing", ""): maintenance.MIRRORING,
    ("streams_compact", ""): maintenance.COMPACTION,
    ("streams_append_quarantine", ""): maintenance.APPEND,
    ("streams_compare", ""): maintenance.COMPARISON,
    ("streams_compare_outputs", ""): OUTPUTS,
    ("streams_look_up", ""): maintenance.LOOK_UPS,
    ("streams_run_order-processing", ""): SCHEDULED_RUN,
}


def taken(dag: Any, group: str) -> list[Any]:
    """The tasks of a group that take steps, each behind all that it follows."""
    return [
        task
        for task in dag.topological_sort()
        if hasattr(task, "takes") and task.task_id.startswith(group) and "." not in task.task_id.removeprefix(group)
    ]


def test_every_dag_is_here(dags: dict[str, Any]) -> None:
    # The monitor takes no step of a workflow: it only looks.
    assert {dag_id for dag_id, _ in WORKFLOWS} == set(dags) - {"streams_monitor"}
    for dag_id in {dag_id for dag_id, _ in WORKFLOWS}:
        dag = dags[dag_id]
        groups = [group for known, group in WORKFLOWS if known == dag_id]
        steps = [task.task_id for task in dag.tasks if hasattr(task, "takes")]
        assert sorted(task.task_id for group in groups for task in taken(dag, group)) == sorted(steps)


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_a_dag_takes_the_steps_of_its_workflow(dags: dict[str, Any], dag_id: str, group: str) -> None:
    tasks, steps = taken(dags[dag_id], group), WORKFLOWS[dag_id, group].all_steps
    assert {task.task_id.removeprefix(group): task.takes for task in tasks} == {step.name: step for step in steps}


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_in_their_order(dags: dict[str, Any], dag_id: str, group: str) -> None:
    dag, steps = dags[dag_id], WORKFLOWS[dag_id, group].all_steps
    # The application is let go while its cut is copied, which the command line does one after the other.
    beside = {(savepoint.RESUME.name, savepoint.COPY_RECORDS.name)}
    for before, after in itertools.pairwise(steps):
        if (before.name, after.name) not in beside:
            task = dag.get_task(f"{group}{after.name}")
            assert f"{group}{before.name}" in task.get_flat_relative_ids(upstream=True), f"{after.name} does not wait for {before.name}"


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_and_as_the_workflow_says(dags: dict[str, Any], dag_id: str, group: str) -> None:
    for task in taken(dags[dag_id], group):
        step: Step = task.takes
        assert (task.retries, task.retry_delay, task.execution_timeout) == (step.retries, step.delay, step.limit), task.task_id
        always = task.is_teardown or task.trigger_rule == "all_done"
        assert always == (step.when is not When.SUCCESS), task.task_id
        assert getattr(task, "results", {}) == {
            need.name: f"{{{{ ti.xcom_pull(task_ids='{group}{need.name}') | tojson }}}}" for need in step.needed
        }, task.task_id


def test_where_many_runs_wait_for_a_worker_an_application_is_let_go_before_another_one_is_held(dags: dict[str, Any]) -> None:
    dag = dags["streams_backup_order-processing"]
    strategies = {name: strategy() for name, strategy in get_airflow_priority_weight_strategies().items()}
    weights = {
        task.task_id: strategies[str(getattr(task.weight_rule, "value", task.weight_rule))].get_weight(SimpleNamespace(task=task))
        for task in dag.tasks
        if hasattr(task, "takes")
    }
    assert weights["begin"] < weights["capture_cut"] < weights["copy_records"] < weights["publish"] < weights["resume"]


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_what_a_step_needs_was_taken_before_it(dag_id: str, group: str) -> None:
    steps = WORKFLOWS[dag_id, group].all_steps
    for number, step in enumerate(steps):
        assert {need.name for need in step.needed} <= {before.name for before in steps[:number]}, step.name


def lists() -> dict[str, Workflow[Any]]:
    """Every workflow, by its module and name."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": value
        for module in modules(workflows)
        for name, value in vars(module).items()
        if isinstance(value, Workflow)
    }


def steps_of_workflows() -> set[Step]:
    """Every step that a module of workflows defines."""
    return {value for module in modules(workflows) for value in vars(module).values() if isinstance(value, Step)}


def test_each_operator_is_drawn_in_a_dag_and_each_step_is_taken_there(dags: dict[str, Any]) -> None:
    drawn = {type(task) for dag in dags.values() for task in dag.tasks if hasattr(task, "takes")}
    assert operator_classes() == drawn
    # An export writes a file for the person who asked for it: it is on the command line only.
    assert steps_of_workflows() - {found.takes for found in drawn} == {*maintenance.EXPORT.all_steps}
    assert {found.takes for found in drawn} == {step for workflow in WORKFLOWS.values() for step in workflow.all_steps}


# What the command line takes by ``steps``: it calls what comes before them itself, because a person is asked in between.
BY_HAND: dict[Any, Workflow[Any]] = {
    runs.backup: savepoint.SAVEPOINT,
    runs.archive: savepoint.ARCHIVE,
    runs.check: maintenance.CHECK,
    runs.compact: maintenance.COMPACTION,
    runs.export: maintenance.EXPORT,
    runs.compare_outputs: OUTPUTS,
    runs.append: maintenance.APPEND,
    runs.cut_over: rollout.CUTOVER,
    runs.drill: sandbox.DRILL,
    runs.reprocess: sandbox.INTERVAL,
}


class Taken(Exception):
    """Ends a run where it has handed its steps over."""


class Recording:
    """See Runner. Keeps the steps that it was to take."""

    def __init__(self) -> None:
        self.steps: Sequence[Step] = ()
        self.recovery = self.submitter = Anything()
        self.pair = (Anything(), Anything())

    def say(self, text: str) -> None:
        """Nobody listens."""

    def take(self, steps: Sequence[Step], _given: Any, **_facts: Any) -> Any:
        """Keep them."""
        self.steps = tuple(steps)
        raise Taken

    run = Runner.run


class Anything:
    """A value that nobody looks at, or one that is there."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *_arguments: Any, **_facts: Any) -> Any:
        return Anything()

    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize("run", BY_HAND, ids=lambda run: run.__name__)
def test_the_command_line_takes_the_same_list(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for operation in (
        "savepoint",
        "archives",
        "maintenance",
        "compaction",
        "state",
        "restore",
        "sandbox",
        "interval",
        "rollout",
        "outputs",
    ):
        monkeypatch.setattr(runs, operation, Anything())
    recording = Recording()
    facts = {
        name: recording if kind.annotation == "Runner" else Anything()
        for name, kind in inspect.signature(run).parameters.items()
        if kind.default is inspect.Parameter.empty
    }
    with pytest.raises(Taken):
        run(**facts)
    assert recording.steps == BY_HAND[run].steps


def test_single_topics_stop_start_and_replace_nothing() -> None:
    touching = {restore.STOP_APPLICATION, restore.PREPARE_TOPICS, restore.WIPE_STATE, restore.START_APPLICATION, restore.FINISH}
    assert touching.isdisjoint(restore.SINGLE_TOPICS.all_steps)


def test_each_strategy_has_its_steps() -> None:
    others = {Rebuild: restore.REBUILD, AsOfMoment: restore.AS_OF_MOMENT, OfInterval: restore.AS_OF_MOMENT}
    others |= {RestoreTopics: restore.SINGLE_TOPICS, Failover: restore.FAILOVER, UpgradeInPlace: restore.UPGRADE, Rescale: restore.RESCALE}
    for strategy in STRATEGIES.values():
        assert restore.workflow_of(strategy) is others.get(strategy, restore.FROM_SAVEPOINT)


def test_an_upgrade_takes_a_savepoint_and_a_restore_and_ends_with_bringing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for operation in ("savepoint", "restore"):
        monkeypatch.setattr(runs, operation, Anything())
    old, clone = Noting(), Noting()
    runs.upgrade(old, clone, Anything(), Anything())  # type: ignore[arg-type]
    assert (old.taken, clone.taken) == ([rollout.RETIREMENT.steps], [rollout.UPGRADE.steps, (rollout.BRING_BACK,)])


@pytest.mark.parametrize("fails", ["retirement", "upgrade"])
def test_whatever_fails_in_an_upgrade_the_old_application_is_brought_back(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for operation in ("savepoint", "restore"):
        monkeypatch.setattr(runs, operation, Anything())
    old, clone = Noting(fails=fails == "retirement"), Noting(fails=fails == "upgrade")
    with pytest.raises(Taken):
        runs.upgrade(old, clone, Anything(), Anything())  # type: ignore[arg-type]
    assert clone.taken[-1] == (rollout.BRING_BACK,)
    assert (rollout.UPGRADE.steps in clone.taken) == (fails == "upgrade")


class Noting(Recording):
    """See Runner. Keeps the lists that it was to take, and what failed is asked for by ``require``."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.taken: list[Sequence[Step]] = []
        self.fails = fails

    def take(self, steps: Sequence[Step], _given: Any, **_facts: Any) -> Any:
        """Keep them."""
        self.taken.append(tuple(steps))
        return self

    def require(self, step: Step) -> Any:
        """Raise, if that is what the test wants."""
        if self.fails and step is not rollout.BRING_BACK:
            raise Taken
        return Anything()


# The orders that are safe. A workflow may have more steps, and has these ones in this order.
REPLACED = (
    restore.STOP_APPLICATION,
    restore.SAVE_STATE,
    restore.COPY_STATE,
    restore.KEEP_STATE,
    restore.PREPARE_TOPICS,
    restore.LOAD_RECORDS,
    restore.CHECK_LOAD,
    restore.COMPARE_RECORDS,
    restore.VERIFY_CHANGELOGS,
    restore.RESET_CONSUMER_GROUP,
    restore.WIPE_STATE,
    restore.START_APPLICATION,
    restore.AWAIT_RECOVERED,
)
ALONE = (
    restore.PREPARE_SINGLE,
    restore.LOAD_RECORDS,
    restore.CHECK_LOAD,
    restore.COMPARE_RECORDS,
    restore.VERIFY_CHANGELOGS,
    restore.RESET_CONSUMER_GROUP,
    restore.WIPE_NOTED,
)
DEFERRED = (restore.LOAD_DEFERRED, restore.CHECK_DEFERRED, restore.COMPARE_DEFERRED, restore.VERIFY_DEFERRED)
COPIED = (savepoint.CAPTURE_CUT, savepoint.COPY_RECORDS, savepoint.PUBLISH, savepoint.FINISH)
SAFE: list[tuple[str, Sequence[Step]]] = [
    ("savepoint.SAVEPOINT", COPIED),
    ("savepoint.SAVEPOINT", (savepoint.CAPTURE_CUT, savepoint.RESUME, savepoint.COPY_RECORDS)),
    ("savepoint.ARCHIVE", (savepoint.BEGIN_ARCHIVE, savepoint.ARCHIVE_INPUTS)),
    ("restore.FROM_SAVEPOINT", (*REPLACED, restore.FINISH, restore.ABANDON)),
    ("restore.FAILOVER", (*REPLACED, restore.ARRIVE, restore.FINISH, restore.ABANDON)),
    ("restore.REBUILD", (*REPLACED, restore.FINISH, restore.ABANDON)),
    ("restore.REBUILD", (restore.PREPARE_TOPICS, restore.VERIFY_CLEARED, restore.RESET_CONSUMER_GROUP)),
    ("restore.AS_OF_MOMENT", (*REPLACED, restore.DRAIN, restore.FINISH, restore.ABANDON)),
    ("restore.SINGLE_TOPICS", (*ALONE, restore.FINISH_SINGLE, restore.ABANDON)),
    ("restore.RESCALE", (restore.PROVE_PLACEMENT, restore.CHECK_PLACEMENT, *REPLACED, restore.FINISH, restore.ABANDON)),
    ("restore.RESCALE", (restore.KEEP_STATE, restore.PLACE_RECORDS, restore.KEEP_PLACED, restore.PREPARE_TOPICS)),
    ("restore.UPGRADE", (*REPLACED[:4], restore.CHECK_VERSION, restore.START_APPLICATION, restore.AWAIT_RECOVERED)),
    ("restore.UPGRADE", (restore.AWAIT_RECOVERED, restore.WATCH_VERSION, restore.FINISH_UPGRADE, restore.ABANDON_UPGRADE)),
    ("sandbox.DRILL", (*REPLACED, restore.FINISH, sandbox.REMOVE_DRILL)),
    ("sandbox.INTERVAL", (*REPLACED, restore.DRAIN_BEFORE_INTERVAL, *DEFERRED, restore.START_ON_INTERVAL, restore.DRAIN)),
    ("sandbox.INTERVAL", (restore.DRAIN, sandbox.PUBLISH_RESULTS, sandbox.FINISH_INTERVAL, sandbox.REMOVE_INTERVAL)),
    ("rollout.CUTOVER", (rollout.STOP, rollout.TRANSFER_OUTPUTS, rollout.START_LIVE, rollout.AWAIT_LIVE, rollout.FINISH, rollout.ABANDON)),
    ("rollout.RETIREMENT", COPIED),
    ("rollout.RETIREMENT", (savepoint.CAPTURE_CUT, rollout.RETIRE, savepoint.COPY_RECORDS)),
    ("rollout.UPGRADE", (*REPLACED, restore.FINISH, restore.ABANDON)),
    ("rollout.UPGRADE", (restore.WIPE_STATE, rollout.MAKE_LIVE, restore.START_APPLICATION)),
    ("maintenance.CHECK", (maintenance.PLAN_CHECK, maintenance.READ_FILES, maintenance.CONCLUDE_CHECK)),
    ("maintenance.MIRRORING", (maintenance.MIRROR,)),
    ("maintenance.EXPIRY", (maintenance.PLAN_EXPIRY, maintenance.EXPIRE)),
    ("maintenance.COMPACTION", (maintenance.PLAN_COMPACTION, maintenance.WRITE_FILES, maintenance.PUBLISH_COMPACTED)),
    ("maintenance.APPEND", (maintenance.OPEN_APPEND, maintenance.APPEND_RECORDS, maintenance.FINISH_APPEND, maintenance.LEAVE_APPEND)),
    ("maintenance.COMPARISON", (maintenance.COMPARE,)),
    ("maintenance.LOOK_UPS", (maintenance.LOOK_UP,)),
    ("maintenance.OUTPUTS", (BEGIN, COMPARE_OUTPUTS, CONCLUDE)),
    ("maintenance.SCHEDULED_RUN", (START, STOP)),
    ("maintenance.EXPORT", (maintenance.BEGIN_EXPORT, maintenance.WRITE_TABLE)),
]


@pytest.mark.parametrize(("name", "order"), SAFE)
def test_steps_come_in_the_order_that_is_safe(name: str, order: Sequence[Step]) -> None:
    steps = lists()[name].all_steps
    places = [steps.index(step) for step in order]
    assert places == sorted(places)


def test_for_each_workflow_it_is_said_which_order_is_safe() -> None:
    assert set(lists()) == {name for name, _ in SAFE}


def test_only_a_cut_that_is_copied_while_the_application_is_down_ends_without_a_resume() -> None:
    assert {name for name, one in lists().items() if savepoint.CAPTURE_CUT in one.steps and savepoint.RESUME not in one.steps} == {
        "rollout.RETIREMENT"
    }


@pytest.mark.fault("F20")
def test_a_step_that_destroys_is_never_tried_again_by_itself() -> None:
    once = {
        restore.STOP_APPLICATION,
        restore.PREPARE_TOPICS,
        restore.PREPARE_SINGLE,
        restore.WIPE_NOTED,
        restore.RESET_CONSUMER_GROUP,
        restore.WIPE_STATE,
        restore.START_APPLICATION,
        restore.CHECK_VERSION,
        restore.WATCH_VERSION,
        rollout.STOP,
        rollout.TRANSFER_OUTPUTS,
        rollout.START_LIVE,
        rollout.MAKE_LIVE,
        maintenance.EXPIRE,
        maintenance.APPEND_RECORDS,
    }
    assert {step.retries for step in once} == {0}


@pytest.mark.fault("F20")
def test_a_teardown_is_tried_again_and_stands_behind_all_that_it_ends() -> None:
    for name, workflow in lists().items():
        ends = [step.when is not When.SUCCESS for step in workflow.steps]
        assert all(step.retries >= 3 for step in workflow.steps if step.when is not When.SUCCESS), name
        assert ends == sorted(ends) or name == "savepoint.SAVEPOINT", f"{name}: nothing is done behind its end"
    assert STOP.retries == 5
    assert (sandbox.CONCLUDE_DRILL.when, sandbox.CONCLUDE_INTERVAL.when, rollout.BRING_BACK.when) == (When.ALWAYS,) * 3


def test_what_destroys_is_below_the_phase_that_says_it_is_done() -> None:
    # A restore that is resumed goes on at the first step that its journal does not show as done.
    for name in (
        "restore.FROM_SAVEPOINT",
        "restore.REBUILD",
        "restore.AS_OF_MOMENT",
        "restore.SINGLE_TOPICS",
        "restore.UPGRADE",
        "rollout.UPGRADE",
    ):
        phases = [step.done_in.rank for step in lists()[name].steps if step.done_in is not None and step.done_in is not Phase.STARTED]
        assert phases == sorted(phases), name


def test_a_job_without_a_lock_changes_no_topic() -> None:
    free = {step.job for step in steps_of_workflows() if isinstance(step, JobStep) and not step.locked}
    assert free == {"archive", "check", "compact", "state", "compare_outputs"}


def test_only_a_safety_savepoint_that_nobody_requires_may_fail() -> None:
    for step in steps_of_workflows():
        if isinstance(step, JobStep):
            allowed = [
                policy
                for policy in SafetyPolicy
                if step.may_fail(SimpleNamespace(request=SimpleNamespace(safeguards=Safeguards(safety=policy))))
            ]
            assert allowed == ([SafetyPolicy.BEST_EFFORT, SafetyPolicy.SKIP] if step is restore.COPY_STATE else [])


ALL_STEPS = sorted(
    {
        (module.__name__.rpartition(".")[2], name): step
        for module in (maintenance, restore, rollout, sandbox, savepoint)
        for name, step in vars(module).items()
        if isinstance(step, Step) and step.needs
    }.items()
)


# They write nothing but their own report; and what is copied of the state is decided by a step that asks.
WITHOUT_LOCK = {"conclude_check", "conclude", "copy_state"}


class AnyAnswer:
    """An answer with every part that a step could need."""

    def __getattr__(self, name: str) -> str:
        return name


@pytest.mark.parametrize("step", [pytest.param(step, id=".".join(named)) for named, step in ALL_STEPS])
def test_a_step_without_the_answer_of_one_before_it_is_refused_with_a_next_step(step: Step[Any]) -> None:
    """As when a person marks a task as a success that did not run: the task behind it finds nothing."""
    with pytest.raises(Refused, match=f"{step.name} needs what {step.needed[0].name} returns") as caught:
        step.arguments({})
    assert "trigger a new run" in caught.value.next_step
    for need in step.needed:
        others = {one.name: AnyAnswer() for one in step.needed if one != need}
        may_lack = [optional for one, optional in zip(step.needs, step.optional, strict=True) if getattr(one, "step", one) == need]
        if all(may_lack):
            assert None in step.arguments(others)
        else:
            with pytest.raises(Refused, match=f"needs what {need.name} returns"):
                step.arguments(others)


@pytest.mark.parametrize("operator", [CaptureCutOperator, CopyRecordsOperator])
def test_a_task_behind_one_that_was_marked_as_done_by_hand_fails_at_once(operator: Any) -> None:
    task = operator(application_name="orders", results={"begin": "null", "capture_cut": "null"})
    with pytest.raises(AirflowFailException, match=r"needs what begin returns.*\n?.*Next: .*trigger a new run"):
        task.execute({})


def asks(call: Any, *any_of: str, depth: int = 4) -> bool:
    """Whether a function calls one of these, or hands on to one of the project's that does."""
    called = {
        ast.unparse(node.func) for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(call)))) if isinstance(node, ast.Call)
    }
    near = vars(inspect.getmodule(call))
    own = [near[name] for name in called if inspect.isfunction(near.get(name)) and near[name].__module__.startswith("streams_recovery")]
    return bool(called & {*any_of}) or (depth > 0 and any(asks(inspect.unwrap(one), *any_of, depth=depth - 1) for one in own))


@pytest.mark.parametrize("step", [pytest.param(step, id=".".join(named)) for named, step in ALL_STEPS])
def test_a_step_behind_the_opening_asks_for_the_lock_and_one_of_a_restore_for_the_phase(step: Step[Any]) -> None:
    if step.when is not When.SUCCESS or step.name in WITHOUT_LOCK or (isinstance(step, JobStep) and not step.locked):
        return
    assert asks(step.call, "guarded", "require_lock", "hold_both", "renewed_lock", "lock_within", "locked")
    if step.call.__module__.startswith("streams_recovery.operations.restore.") and step.needed[0] is restore.OPEN_RESTORE:
        assert asks(step.call, "guarded")
