"""The tasks by which an application gets a clone, hands its outputs over to it, and takes them back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from airflow.sdk import TaskGroup, chain

from streams_recovery.operators.base import result_of
from streams_recovery.operators.clone import (
    AbandonSwitchOperator,
    AwaitLiveOperator,
    BeginUpgradeOperator,
    BringBackOperator,
    ChooseStepOperator,
    FinishSwitchOperator,
    HandOverOperator,
    MakeLiveOperator,
    OpenCloneOperator,
    OpenSwitchOperator,
    PlanCloneOperator,
    PlanSwitchOperator,
    PlanUpgradeOperator,
    RetireOperator,
    StartLiveOperator,
    StopForSwitchOperator,
)
from streams_recovery.operators.restore import AbandonRestoreOperator
from streams_recovery.operators.restore_chain import JOB, LEAVE, approval, restore_steps
from streams_recovery.operators.savepoint import (
    CaptureCutOperator,
    FinishSavepointOperator,
    GatherSegmentsOperator,
    PublishSavepointOperator,
    QuiesceOperator,
)
from streams_recovery.operators.spark import CopyRecordsOperator

CLONE, SWITCH, UPGRADE = "clone", "switch", "upgrade"
FIRST = {"clone": f"{CLONE}.plan", "cut_over": f"{SWITCH}.plan", "roll_back": f"{SWITCH}.plan", "offline_upgrade": f"{UPGRADE}.plan"}


def clone_chain(name: str, step: str, *, restore: Mapping[str, str], switch: Mapping[str, str]) -> None:
    """Lay all of them into the DAG that is being defined: the branch of ``step``, which is a template as ``name`` of the clone is, and the three
    groups. ``restore`` and ``switch`` have templates for what a person asks for.
    """
    choose = ChooseStepOperator(task_id="choose", step=step, first_tasks=FIRST)
    with TaskGroup(CLONE):
        clone_tasks(choose, name, restore)
    with TaskGroup(SWITCH):
        switch_tasks(choose, name, switch)
    with TaskGroup(UPGRADE):
        upgrade_tasks(choose, name, restore)


def clone_tasks(choose: ChooseStepOperator, name: str, asked: Mapping[str, str]) -> None:
    """A restore of the old application's savepoint, while that one runs."""
    group = f"{CLONE}."
    ticket = result_of(f"{group}open_restore")
    plan = PlanCloneOperator(task_id="plan", application_name=name, asked=asked)
    approve = approval(f"Clone into {name}?", group=group)
    # The old application's next savepoint must not change what was planned and is being read.
    pinned = {**asked, "savepoint": _planned(group, "savepoint")}
    opened = OpenCloneOperator(task_id="open_restore", application_name=name, asked=pinned, approved_hash=_planned(group, "hash"))
    opened.as_setup()
    abandon = AbandonRestoreOperator(task_id="abandon", application_name=name, ticket=ticket, **LEAVE).as_teardown(setups=opened)
    chain(choose, plan, approve, opened, *restore_steps(name, ticket, group=group), abandon)


def switch_tasks(choose: ChooseStepOperator, name: str, asked: Mapping[str, str]) -> None:
    """A cut-over or a way back. *abandon* is the teardown."""
    group = f"{SWITCH}."
    shared = {"application_name": name, "ticket": result_of(f"{group}open")}
    plan = PlanSwitchOperator(task_id="plan", application_name=name, asked=asked)
    approve = approval(f"{{{{ params.step }}}} of {name}?", group=group)
    opened = OpenSwitchOperator(task_id="open", application_name=name, asked=asked, approved_hash=_planned(group, "hash"))
    opened.as_setup()
    abandon = AbandonSwitchOperator(task_id="abandon", **LEAVE, **shared).as_teardown(setups=opened)
    started = result_of(f"{group}start_live")
    chain(
        choose,
        plan,
        approve,
        opened,
        StopForSwitchOperator(task_id="stop", execution_timeout=JOB, **shared),
        HandOverOperator(task_id="hand_over", **shared),
        StartLiveOperator(task_id="start_live", **shared),
        AwaitLiveOperator(task_id="await_live", started=started, execution_timeout=JOB, **shared),
        FinishSwitchOperator(task_id="finish", stopped=result_of(f"{group}stop"), **shared),
        abandon,
    )


def upgrade_tasks(choose: ChooseStepOperator, name: str, asked: Mapping[str, str]) -> None:
    """A savepoint for which the old application is stopped and stays down, and the restore of the clone from it. *bring_back* is the last teardown."""
    group = f"{UPGRADE}."
    old, saved, ticket = _planned(group, "old"), result_of(f"{group}begin_savepoint"), result_of(f"{group}open_restore")
    savepoint = {"application_name": old, "ticket": saved}
    pinned = {**asked, "savepoint": f"{{{{ ti.xcom_pull(task_ids='{group}publish')['savepoint_id'] }}}}"}
    plan = PlanUpgradeOperator(task_id="plan", application_name=name)
    approve = approval(f"Upgrade to {name}?", group=group)
    begin = BeginUpgradeOperator(task_id="begin_savepoint", application_name=old, reason=asked["reason"])
    begin.as_setup()
    finish = FinishSavepointOperator(task_id="finish_savepoint", **LEAVE, **savepoint).as_teardown(setups=begin)
    opened = OpenCloneOperator(
        task_id="open_restore",
        application_name=name,
        asked=pinned,
        approved_hash=f"{{{{ ti.xcom_pull(task_ids='{group}plan_restore')['hash'] }}}}",
    )
    opened.as_setup()
    abandon = AbandonRestoreOperator(task_id="abandon", application_name=name, ticket=ticket, **LEAVE).as_teardown(setups=opened)
    bring_back = BringBackOperator(task_id="bring_back", clone_name=name, **LEAVE, **savepoint).as_teardown(setups=begin)
    publish = PublishSavepointOperator(task_id="publish", gathered=result_of(f"{group}verify_segments"), retries=2, **savepoint)
    chain(
        choose,
        plan,
        approve,
        begin,
        QuiesceOperator(task_id="quiesce", **savepoint),
        CaptureCutOperator(task_id="capture_cut", quiesced=result_of(f"{group}quiesce"), **savepoint),
        RetireOperator(task_id="retire", clone_name=name, cut=result_of(f"{group}capture_cut"), **savepoint),
        CopyRecordsOperator(
            task_id="copy_records",
            cut=result_of(f"{group}capture_cut"),
            execution_timeout=JOB,
            retries=2,
            retry_delay=timedelta(seconds=30),
            **savepoint,
        ),
        GatherSegmentsOperator(task_id="verify_segments", copied=result_of(f"{group}copy_records"), retries=2, **savepoint),
        publish,
        PlanCloneOperator(task_id="plan_restore", application_name=name, asked=pinned),
        opened,
        *restore_steps(
            name,
            ticket,
            group=group,
            before_start=[MakeLiveOperator(task_id="make_live", application_name=name, ticket=ticket)],
        ),
        abandon,
        bring_back,
    )
    chain(publish, finish, bring_back)


def _planned(group: str, what: str) -> str:
    return f"{{{{ ti.xcom_pull(task_ids='{group}plan')['{what}'] }}}}"
