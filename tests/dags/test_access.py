"""Restores of one application in the hands of certain people: DAGs of its own, rights on them, and whose approval counts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput
from airflow.serialization.serialized_objects import DagSerialization

from streams_recovery.config.loader import load_application
from streams_recovery.core.approval import shown
from streams_recovery.core.version import VERSION
from streams_recovery.operators import approval
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import require_answer
from streams_recovery.workflows.dags import own_dags, removed_dags, shared_dags
from tests.support.project import PROJECT

EXAMPLE = (PROJECT / "include" / "configs" / "order-processing.yaml").read_text()
NAME = "order-processing"
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
RUN = {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}
VIEW = {"DAGs": {"can_read"}, "DAG Runs": {"can_read"}}
PLAN = "Replace 3 topics."
ROLES = "own_dags: true, roles: {payments-team: run, support: view}"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: None) -> Path:
    monkeypatch.setenv("STREAMS_RECOVERY_CONFIG_DIR", str(tmp_path))
    return tmp_path


def configure(directory: Path, access: str) -> None:
    (directory / f"{NAME}.yaml").write_text(f"{EXAMPLE}\naccess: {{{access}}}\n")


def parsed(*names: str) -> dict[str, Any]:
    """The DAGs of the files of these names, or of all."""
    found: dict[str, Any] = {}
    for file in [f"{name}.py" for name in names] or [""]:
        bag = DagBag(str(PROJECT / "dags" / file))
        assert bag.import_errors == {}
        found |= bag.dags
    for dag in found.values():
        DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    return found


def test_an_application_with_dags_of_its_own_has_the_tasks_of_the_shared_ones(directory: Path) -> None:
    configure(directory, "own_dags: true")
    found = parsed()
    assert f"streams_clone_{NAME}" not in found, "it is no clone"
    assert {dag_id for dag_id in found if dag_id.endswith(NAME)} == set(own_dags(NAME)) - removed_dags(load_application(NAME))
    for dag_id in set(shared_dags()) - {"streams_clone"}:
        shared, own = found[dag_id], found[f"{dag_id}_{NAME}"]
        assert {task.task_id: task.upstream_task_ids for task in own.tasks} == {
            task.task_id: task.upstream_task_ids for task in shared.tasks
        }
        assert {type(task) for task in own.tasks} == {type(task) for task in shared.tasks}
        assert set(shared.params) - set(own.params) == {"application", "source"} & set(shared.params)
        assert {task.application_name for task in own.tasks if hasattr(task, "application_name")} == {NAME}
        assert (own.access_control, NAME in own.tags) == (None, True)


def test_others_savepoints_are_offered_where_the_configuration_says_so(directory: Path) -> None:
    configure(directory, "own_dags: true, sources: [order-processing]")
    assert parsed("streams_restore_full")[f"streams_restore_full_{NAME}"].params.get_param("source").schema["enum"] == [None, NAME]


def test_roles_get_rights_on_all_dags_of_the_application_and_none_to_delete(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", FAB)
    configure(directory, ROLES)
    found = parsed()
    for dag_id, dag in found.items():
        if not dag_id.endswith(NAME):
            assert dag.access_control is None, dag_id
        elif dag_id.startswith("streams_expire"):
            assert dag.access_control == {"payments-team": VIEW, "support": VIEW}
        else:
            assert dag.access_control == {"payments-team": RUN, "support": VIEW}, dag_id
    assert f"streams_configuration_{NAME}" not in found


@pytest.mark.remedy("access-approvers")
@pytest.mark.parametrize(
    ("access", "variable", "said"),
    [
        (ROLES, {}, "SimpleAuthManager gives no rights on single DAGs"),
        ("approvers: [anna]", {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True"}, "everybody is the same administrator"),
        (
            "approvers_exclude_trigger: true",
            {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True"},
            "everybody is the same administrator",
        ),
    ],
)
def test_what_cannot_be_enforced_is_no_restore_and_still_a_savepoint(
    directory: Path, monkeypatch: pytest.MonkeyPatch, access: str, variable: dict[str, str], said: str
) -> None:
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    configure(directory, access)
    found = parsed()
    broken = found[f"streams_configuration_{NAME}"]
    assert said in broken.doc_md
    assert "Savepoints of it are taken" in broken.doc_md
    with pytest.raises(AirflowFailException, match=said.split(maxsplit=1)[0]):
        broken.get_task("check_configuration").execute({})
    assert f"streams_backup_{NAME}" in found
    assert [dag_id for dag_id in found if dag_id.endswith(NAME) and dag_id.removesuffix(f"_{NAME}") in shared_dags()] == []
    assert found["streams_restore_full"].params.get_param("application").schema["enum"] == []
    with pytest.raises(AirflowFailException, match="Nothing was changed"):
        asked(trigger="otto")
    # Who would remove the key reads first what it keeps from whom.
    assert "only if that is meant" in broken.doc_md
    for name in variable:
        monkeypatch.setenv(name, "False")
        assert f"streams_configuration_{NAME}" not in parsed()


def run(trigger: str | None, *, clears: int = 0, tries: int = 3) -> dict[str, Any]:
    """What a task knows of its run: ``clears`` as Airflow counts them, and how many ``tries`` it has."""
    instance = SimpleNamespace(id="1", max_tries=tries)
    return {"dag_run": SimpleNamespace(triggering_user_name=trigger, clear_number=clears), "task_instance": instance, "ti": instance}


def asked(*, trigger: str | None, **facts: int) -> ApprovePlanOperator:
    """The task once it waits for an answer."""
    task = ApprovePlanOperator(application_name=NAME, subject="Restore?")
    context = run(trigger, **facts)
    task.body = PLAN
    with pytest.raises(TaskAwaitingInput) as waiting:
        task.execute(context)  # type: ignore[arg-type]
    assert waiting.value.kwargs == {"approved": shown(PLAN, VERSION)}, "the answer will have with it what was shown"
    return task


def answer(who: str | None, *, trigger: str | None, option: str = "Approve", approved: dict[str, str] | None = None, **facts: int) -> Any:
    """What becomes of an answer."""
    task = ApprovePlanOperator(application_name=NAME, subject="Restore?")
    event = {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": datetime.now(UTC),
        "responded_by_user": None if who is None else {"id": "7", "name": who},
    }
    context = run(trigger, **facts)
    return task.execute_complete(context, event, approved)  # type: ignore[arg-type]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Airflow's database would be told of each question."""
    found: list[Any] = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **facts: found.append(facts["assigned_users"])
    )
    return found


def test_only_approvers_are_asked_and_never_the_one_who_triggered(directory: Path, asking: list[Any]) -> None:
    configure(directory, "approvers: [anna, bert], approvers_exclude_trigger: true")
    asked(trigger="otto")
    asked(trigger="anna")
    assert asking == [[{"id": "anna", "name": "anna"}, {"id": "bert", "name": "bert"}], [{"id": "bert", "name": "bert"}]]
    with pytest.raises(AirflowFailException, match="it is not known who triggered this run"):
        asked(trigger=None)


def test_where_airflow_knows_users_by_another_id_the_answer_is_looked_at(
    directory: Path, asking: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(directory, "approvers: [anna, bert], approvers_exclude_trigger: true")
    monkeypatch.setattr(approval, "answers_by_name", lambda: False)
    asked(trigger="otto")
    assert asking == [None]
    assert answer("bert", trigger="anna")["chosen_options"] == ["Approve"]
    for who in ("anna", "otto", None):
        with pytest.raises(TaskAwaitingInput) as again:
            answer(who, trigger="anna", approved={"plan": "as it was shown"})
        assert again.value.kwargs == {"approved": {"plan": "as it was shown"}}, "the question is the first one"
    assert len(asking) == 4


# A clear may leave the count of the run as it is (`reset_dag_runs: false`): the task has more tries then.
CLEARED = [{"clears": 1}, {"tries": 4}, {"clears": 2, "tries": 8}]


@pytest.mark.parametrize("facts", CLEARED)
def test_whoever_clears_a_rejected_run_gets_no_approval_of_it(directory: Path, asking: list[Any], facts: dict[str, int]) -> None:
    configure(directory, "approvers_exclude_trigger: true")
    for who in ("anna", "otto"):
        with pytest.raises(AirflowFailException, match=r"this run was cleared.*Trigger a new run\. Nothing was changed"):
            asked(trigger=who, **facts)
        with pytest.raises(AirflowFailException, match="this run was cleared"):
            answer("anna", trigger=who, **facts)
    assert asking == []
    assert answer("anna", trigger="otto")["chosen_options"] == ["Approve"]
    task = parsed("streams_restore_full")["streams_restore_full"].get_task("open_restore")
    given = {"responded_by_user": {"id": "2", "name": "anna"}, "approved": shown(PLAN, VERSION)}
    context = run("otto", **facts)
    context["ti"].xcom_pull = lambda task_ids: {"approve": given, "plan": {"text": PLAN}}[task_ids]
    with pytest.raises(AirflowFailException, match="This plan is not approved: this run was cleared"):
        require_answer(task, NAME, context)  # type: ignore[arg-type]


@pytest.mark.parametrize("facts", CLEARED)
def test_where_the_trigger_may_approve_so_may_whoever_clears(directory: Path, asking: list[Any], facts: dict[str, int]) -> None:
    configure(directory, "approvers: [anna]")
    asked(trigger="anna", **facts)
    assert answer("anna", trigger="anna", **facts)["chosen_options"] == ["Approve"]


def test_anybody_may_reject(directory: Path) -> None:
    configure(directory, "approvers: [anna], approvers_exclude_trigger: true")
    with pytest.raises(AirflowFailException, match="The plan was rejected"):
        answer("otto", trigger="otto", option="Reject")


def test_without_a_rule_everybody_may_approve(directory: Path, asking: list[Any]) -> None:
    configure(directory, "own_dags: false")
    asked(trigger=None)
    assert (asking, answer(None, trigger=None)["chosen_options"]) == ([None], ["Approve"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "not known who approved"),
        ({"responded_by_user": {"id": "1", "name": "otto"}}, "otto is not among the approvers"),
        ({"responded_by_user": {"id": "2", "name": "anna"}, "approved": shown("another plan", VERSION)}, "another one now"),
        ({"responded_by_user": {"id": "2", "name": "anna"}, "approved": shown(PLAN, "0.0.1")}, "shown by 0.0.1 of this software"),
        ({"responded_by_user": {"id": "2", "name": "anna"}, "approved": shown(PLAN, VERSION)}, None),
    ],
)
def test_an_approval_that_was_set_by_hand_is_none(directory: Path, answer: Any, said: str | None) -> None:
    configure(directory, "own_dags: true, approvers: [anna]")
    first = [("streams_restore_full", "open_restore"), ("streams_append_quarantine", "open_append"), ("streams_undo", "open_restore")]
    found = parsed(*(dag_id for dag_id, _ in first))
    for dag_id, task_id in first:
        task = found[f"{dag_id}_{NAME}"].get_task(task_id)
        assert task.after_approval
        returned = {"approve": answer, "plan": {"text": PLAN}}
        context = {
            "ti": SimpleNamespace(xcom_pull=lambda task_ids, known=returned: known[task_ids], max_tries=task.retries),
            "dag_run": SimpleNamespace(triggering_user_name="otto", clear_number=0),
        }
        if said is None:
            require_answer(task, NAME, context)  # type: ignore[arg-type]
        else:
            with pytest.raises(AirflowFailException, match=f"This plan is not approved: .*{said}"):
                require_answer(task, NAME, context)  # type: ignore[arg-type]


def test_in_each_dag_the_first_task_that_acts_on_an_approval_looks_at_it(directory: Path) -> None:
    configure(directory, "own_dags: true")
    for dag in parsed().values():
        for task in dag.tasks:
            if task.task_id.rpartition(".")[2] == "approve":
                group = task.task_id.removesuffix("approve")
                behind = task.get_flat_relative_ids(upstream=False)
                looks = {
                    other.task_id for other in dag.tasks if getattr(other, "after_approval", False) and other.task_id.startswith(group)
                }
                assert looks & behind, (dag.dag_id, task.task_id)
                # Whatever does anything comes after it.
                first = {name for name in task.downstream_task_ids if not dag.get_task(name).is_teardown}
                assert first <= looks, (dag.dag_id, task.task_id, first)
