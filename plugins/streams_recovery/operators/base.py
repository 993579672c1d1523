"""The base of all operators: each takes one step of a workflow, on a configured application.

It is also the one place that defines assets: two definitions of one URI under different names would disable each other. No URI names a broker or a bucket,
because those are in connections, and a DAG file reads no connection.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, ClassVar, Final, TypeVar

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from croniter import croniter

from streams_recovery.application.command import end_programs
from streams_recovery.config.loader import load_application
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import clone_of
from streams_recovery.core import codec
from streams_recovery.core.approval import outdated, refusal
from streams_recovery.core.codec import document
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.mirror import FROM_PLACE, Where
from streams_recovery.core.version import VERSION
from streams_recovery.core.words import run_name
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations import savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.workflows.step import Step

T = TypeVar("T")
# All params of a run, as JSON text, so each value keeps its type.
PARAMS: Final = "{{ params | tojson }}"
# The result of a task that did not succeed, or had nothing to say, as JSON.
NOTHING: Final = "null"
_LOGGED_CHARACTERS: Final = 2_000
_GROUP: Final = "streams-recovery"
# For DAGs that are told the application when they run.
SAVEPOINTS: Final = AssetAlias(name="streams-recovery/savepoints", group=_GROUP)
RESTORES: Final = AssetAlias(name="streams-recovery/restores", group=_GROUP)


class StepOperator(Logged, BaseOperator):
    """One step of a workflow: its result goes to XCom as JSON. ``takes`` is the step; its name is the task's id, and its retries and limit are the task's,
    unless others are given.

    The results that the step needs come from the tasks of the same names, beside this one in its task group, so nothing but the order of tasks has to be
    drawn. ``results`` gives templates of others, by the names of steps; each renders to JSON text. A task ``after_approval`` is the first one that acts on an
    approval: it looks at who gave it, and for which plan. ``approval_of`` is the application whose rule about approvers counts, when it is another one. A
    task ``anew`` begins what a sandbox is for, at the site where that is to be now.
    """

    takes: ClassVar[Step[Any]]
    after_approval: ClassVar[bool] = False
    anew: ClassVar[bool] = False
    template_fields: Sequence[str] = ("application_name", "results", "approval_of")

    def __init__(self, *, application_name: str, results: Mapping[str, str] | None = None, approval_of: str = "", **kwargs: Any) -> None:
        super().__init__(**treatment(self.takes) | kwargs)
        self.application_name = application_name
        self.approval_of = approval_of
        self.results = results_of(self.takes, self.task_id) | dict(results or {})

    def execute(self, context: Context) -> Any:
        """Open the application, take the step, return what it reports as plain JSON."""
        started = time.monotonic()
        if self.after_approval:
            require_answer(self, self.approval_of or self.application_name, context)
        with airflow_errors(self.takes), self.opened(context) as recovery:
            result = self.step(recovery, context)
        plain = codec.encode(result)
        self.log.info("%s took %.1f s: %s", self.task_id, time.monotonic() - started, json.dumps(plain)[:_LOGGED_CHARACTERS])
        if result is not None:
            self._tell(result)
        return plain

    def opened(self, context: Context) -> AbstractContextManager[RecoveryContext]:
        """The application's context, where the step is taken."""
        return context_of(self.application_name, self.site(), anew=self.anew, place=place_of(self, context))

    def on_kill(self) -> None:
        """End the programs that run for the step. Airflow tells a task to end by this alone, and kills it seconds later."""
        end_programs()

    def _tell(self, result: Any) -> None:
        if (message := self.takes.message(result)) is not None:
            self.log.info("%s", message)
        for command in self.takes.commands(result):
            self.log.info("    %s", command)

    def site(self) -> str | None:
        """The site that the step is taken at, None for the application's own."""
        return site_of(needed_results(self.takes, self.results))

    def step(self, recovery: RecoveryContext, context: Context) -> Any:
        """Take it. Operators of steps that need more than results of others have their own."""
        return self.called(recovery)

    def called(self, recovery: RecoveryContext, *arguments: Any, **facts: Any) -> Any:
        """The step's call, on both applications if it is one of a pair, with ``arguments`` and the results that it needs, and ``facts`` of the run."""
        needed = needed_results(self.takes, self.results)
        if not self.takes.pair:
            return self.takes.call(recovery, *arguments, *needed, **facts)
        with context_of(original_of(self.application_name)) as original:
            return self.takes.call(original, recovery, *arguments, *needed, **facts)


class ParamsOperator(StepOperator):
    """A task that reads the run's params. ``params_json`` renders to JSON with them, by their names. Only those that the DAG declares count."""

    template_fields: Sequence[str] = (*StepOperator.template_fields, "params_json")

    def __init__(self, *, params_json: str = PARAMS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.params_json = params_json

    def params_of_run(self) -> dict[str, Any]:
        """The params, by their names."""
        return declared_params(self, self.params_json)


def declared_params(operator: BaseOperator, params_json: str) -> dict[str, Any]:
    """The run's params that the DAG or the task declares. Airflow passes on whatever else a run was triggered with, and no schema has checked that."""
    declared = {*operator.dag.params, *operator.params}
    return {name: value for name, value in document(params_json).items() if name in declared}


def place_of(operator: BaseOperator, context: Context) -> Where | None:
    """The place of the repository in a run: the second one where the DAG asks for it and the person has said so. All of its steps are taken there. Raises
    ``ConfigInvalid`` where the DAG does not ask: never did, or does not any more since the run began, whose later steps would be taken in the first place.
    """
    given = (context.get("params") or {}).get(FROM_PLACE.name)
    if FROM_PLACE.name in operator.dag.params:
        return Where(given) if given else None
    if given == Where.MIRROR:
        raise ConfigInvalid(
            f"this run is to read the second place, and {operator.dag.dag_id} does not know one",
            next_step="nothing was done in the first place; write storage.mirror in the configuration again and clear this task, or end a restore that has "
            "begun by `resume --from mirror`",
        )
    return None


def original_of(clone_name: str) -> str:
    """The name of the application that the one of this name is a clone of. Raises ``ConfigInvalid``."""
    return clone_of(load_application(clone_name)).of


def treatment(step: Step[Any]) -> dict[str, Any]:
    """The arguments of a task that takes ``step``."""
    # By default Airflow prefers tasks with the most tasks behind them: where many runs are due at once all would begin before the first one goes on.
    order = {"weight_rule": "upstream"}
    backoff = {} if step.most_delay is None else {"retry_exponential_backoff": True, "max_retry_delay": step.most_delay}
    return {"task_id": step.name, "retries": step.retries, "retry_delay": step.delay, "execution_timeout": step.limit, **order, **backoff}


def results_of(step: Step[Any], task_id: str) -> dict[str, str]:
    """Templates of the results that ``step`` needs, from the tasks in the task group of ``task_id``."""
    group = group_prefix(task_id)
    return {need.name: result_of(f"{group}{need.name}") for need in step.needed}


def needed_results(step: Step[Any], rendered: Mapping[str, str]) -> list[Any]:
    """The arguments of the step's call, from the results that it needs; None for one of a task that did not succeed."""
    return step.arguments(
        {
            need.name: received(need.result, rendered[need.name], need.name)
            for need in step.needed
            if need.result is not None and rendered[need.name] != NOTHING
        }
    )


def site_of(results: Sequence[Any]) -> str | None:
    """The site that a restore or a savepoint was begun at, or moves the application to, by its ticket among ``results``; None without one. All of its steps are
    taken there: a stranger may have written to the log of sites in the middle of it.
    """
    return next((one.site for one in results if isinstance(one, (RestoreTicket, savepoint.Ticket))), None)


def result_of(task_id: str) -> str:
    """Template of what a task returned, as JSON text: it needs no dependency arrow and survives any rendering unchanged."""
    return f"{{{{ ti.xcom_pull(task_ids='{task_id}') | tojson }}}}"


def received(kind: type[T], text: str, what: str) -> T:
    """The ``kind`` that an earlier task's result describes. Raises ``Damaged``, for example when that task left no result."""
    return codec.loads(kind, text.encode(), where=f"the result of {what}")


def received_if_any(kind: type[T], text: str, what: str) -> T | None:
    """As ``received``, but None when that task did not succeed."""
    return None if text == NOTHING else received(kind, text, what)


def group_prefix(task_id: str) -> str:
    """The beginning of the ids of tasks beside ``task_id``: its task group with a dot, empty outside of one."""
    return f"{task_id.rpartition('.')[0]}." if "." in task_id else ""


def run_id_of(context: Context) -> str:
    """A name for the run that is fit for object keys, and that no run of another DAG has."""
    return run_name(context["dag_run"].run_id, context["dag_run"].dag_id)


def requested_by(context: Context) -> str:
    """The user who started the run, as far as Airflow knows."""
    return context["dag_run"].triggering_user_name or "airflow"


def too_late(run_type: str, run_after: datetime, schedule: str | None, now: datetime) -> str | None:
    """The reason for which a run must not take a savepoint any more, None when it may.

    A savepoint's time is the time it is taken, whatever interval the run was made for. Backfills never may take one: they would publish today's state as a
    past point. A scheduled run may until the next one is due; a run by hand always may, because a person asked for the present.
    """
    if run_type == "backfill":
        return "backfill runs stand for the past, and a savepoint can only be taken of the present"
    if run_type == "manual" or schedule is None:
        return None
    due = croniter(schedule, run_after).get_next(datetime)
    if now >= due:
        return f"this run was due at {run_after:%Y-%m-%d %H:%M} UTC and the next one since {due:%Y-%m-%d %H:%M} UTC; only the newest takes a savepoint"
    return None


def was_cleared(operator: BaseOperator, context: Context) -> bool:
    """Return True if this run, or the task that runs now, was cleared and runs once more. Airflow counts how often a run was cleared, unless its state
    was to stay as it is; each clear of a task allows it as many tries again as it has.
    """
    return context["dag_run"].clear_number != 0 or context["ti"].max_tries > (operator.retries or 0)


def require_answer(operator: BaseOperator, application_name: str, context: Context) -> None:
    """Fail unless the answer of the task *approve* beside ``operator``, if the DAG has one, counts for the plan that there is now, by the rule of the
    application. A task whose state was set by hand has answered nothing; it counts only without such a rule.
    """
    group = group_prefix(operator.task_id)
    if f"{group}approve" not in operator.dag.task_ids:
        return
    answer = context["ti"].xcom_pull(task_ids=f"{group}approve") or {}
    rule = load_application(application_name).access.approval
    user, trigger = answer.get("responded_by_user") or {}, context["dag_run"].triggering_user_name
    if why := refusal(rule, triggered_by=trigger, approved_by=user.get("name"), cleared=was_cleared(operator, context)):
        raise AirflowFailException(f"This plan is not approved: {why}")
    if answer:
        planned = context["ti"].xcom_pull(task_ids=f"{group}plan") or {}
        if why := outdated(answer.get("approved") or {}, plan=planned.get("text", ""), software=VERSION):
            raise AirflowFailException(f"This plan is not approved: {why}. Nothing was changed; trigger a new run")


def savepoints_of(application_name: str) -> Asset:
    """Gets an event for every savepoint of the application. A DAG scheduled on it runs after each of them."""
    return _asset("savepoints", application_name)


def restores_of(application_name: str) -> Asset:
    """Gets an event for every restore of the application that is finished."""
    return _asset("restores", application_name)


def topics_of(config: ApplicationConfig) -> list[Asset]:
    """The topics that the application reads, by the id of the connection to their cluster. Nothing here makes events for them."""
    return [_asset("kafka", f"{config.source.connection}/{topic}") for topic in (*config.topics.inputs, *config.topics.globals)]


def _asset(kind: str, name: str) -> Asset:
    return Asset(name=f"{kind}/{name}", uri=f"streams-recovery://{kind}/{name}", group=_GROUP)
