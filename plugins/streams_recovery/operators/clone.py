"""The steps by which outputs change hands between an application and its clone, and those of an upgrade in one go."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import Context

from streams_recovery.config.clone_application import clone_of
from streams_recovery.config.directory import load_application
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.core.text.cutover import cutover_text, upgrade_text
from streams_recovery.hooks.context import context_of
from streams_recovery.operations import restore, rollout, savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.restore import OpenRestoreOperator, PlanRestoreOperator
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.operators.savepoint import BeginSavepointOperator, SavepointStepOperator


def replaced_by(clone_name: str) -> str:
    """The name of the application that the one of this name is a clone of. Raises ``ConfigInvalid``."""
    return clone_of(load_application(clone_name)).of


class ChooseStepOperator(BaseBranchOperator):
    """Goes on with the task that belongs to ``step``; the others are skipped. ``first_tasks`` has one for each step."""

    template_fields: Sequence[str] = ("step",)

    def __init__(self, *, step: str, first_tasks: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.step = step
        self.first_tasks = dict(first_tasks)

    def choose_branch(self, context: Context) -> str:
        """The task."""
        return self.first_tasks[self.step]


class PlanCloneOperator(PlanRestoreOperator):
    """Say what the restore would do by which the clone begins: from a savepoint of the application that it is a clone of."""

    def request(self, recovery: RecoveryContext) -> restore.RestoreRequest:
        """With the source that the configuration names."""
        self.asked["source"] = replaced_by(self.application_name)
        return super().request(recovery)


class OpenCloneOperator(OpenRestoreOperator):
    """Open that restore."""

    def request(self, recovery: RecoveryContext) -> restore.RestoreRequest:
        """With the source that the configuration names."""
        self.asked["source"] = replaced_by(self.application_name)
        return super().request(recovery)


class PairOperator(StepOperator):
    """A step that works on a clone, which ``application_name`` names, and on the application that it is a clone of."""

    def step(self, recovery: RecoveryContext, context: Context) -> Any:
        """With both workbenches."""
        with context_of(replaced_by(self.application_name)) as old:
            return self.both(old, recovery, context)

    @abstractmethod
    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> Any:
        """The one call."""


class SwitchRequestedOperator(PairOperator):
    """A step that starts from what a person asked for. ``asked`` has ``step``, ``max_lag`` (nothing: as configured), ``restore_first`` and ``reason``."""

    template_fields: Sequence[str] = ("application_name", "asked")

    def __init__(self, *, asked: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked = dict(asked)

    @property
    def request(self) -> rollout.CutoverRequest:
        """The request itself."""
        asked = self.asked
        return rollout.CutoverRequest(
            step=rollout.Step(asked["step"]),
            max_lag=int(asked["max_lag"]) if asked["max_lag"].isdecimal() else None,
            reason=asked["reason"],
            restore_first=asked["restore_first"] == "True",
        )


class PlanSwitchOperator(SwitchRequestedOperator):
    """Say what a cut-over or a way back would do. Changes nothing."""

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> dict[str, Any]:
        """Plan."""
        planned = rollout.plan_cutover(old, clone, self.request)
        text = cutover_text(planned)
        self.log.info("%s", text)
        return {"hash": planned.hash, "text": text, "again": planned.again, "tail": planned.tail, "lag": planned.lag}


class OpenSwitchOperator(SwitchRequestedOperator):
    """Take both locks and plan again under them. ``approved_hash`` is the plan that was approved."""

    template_fields: Sequence[str] = (*SwitchRequestedOperator.template_fields, "approved_hash")

    def __init__(self, *, approved_hash: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approved_hash = approved_hash

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> rollout.CutoverTicket:
        """Open."""
        return rollout.open_cutover(
            old, clone, self.request, run_id=run_id_of(context), requested_by=requested_by(context), approved_hash=self.approved_hash
        )


class SwitchStepOperator(PairOperator):
    """A step of a switch that is open. ``ticket`` is the JSON that open returned."""

    template_fields: Sequence[str] = ("application_name", "ticket")

    def __init__(self, *, ticket: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket

    @property
    def held_ticket(self) -> rollout.CutoverTicket:
        """The ticket itself."""
        return received(rollout.CutoverTicket, self.ticket, "open")


class StopForSwitchOperator(SwitchStepOperator):
    """Stop the clone, and for a cut-over also the application that it replaces, once that has read as much."""

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> rollout.StoppedForCutover:
        """Stop."""
        return rollout.stop(old, clone, self.held_ticket)


class HandOverOperator(SwitchStepOperator):
    """Put on record who writes the outputs from now on."""

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> rollout.OutputsTransferred:
        """Hand over."""
        return rollout.transfer_outputs(old, clone, self.held_ticket)


class StartLiveOperator(SwitchStepOperator):
    """Start the one that writes the outputs."""

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> rollout.LiveStarted:
        """Start."""
        return rollout.start_live(old, clone, self.held_ticket)


class AwaitLiveOperator(SwitchStepOperator):
    """Wait until it is RUNNING and has read its inputs. ``started`` is the JSON that the start returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "started")

    def __init__(self, *, started: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.started = started

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> None:
        """Wait."""
        rollout.await_live(old, clone, self.held_ticket, received(rollout.LiveStarted, self.started, "the start"))


class FinishSwitchOperator(SwitchStepOperator):
    """Write the report and give both locks back. ``stopped`` is the JSON that the stop returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "stopped")

    def __init__(self, *, stopped: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stopped = stopped

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> rollout.CutoverReport:
        """Finish."""
        report = rollout.finish(old, clone, self.held_ticket, received(rollout.StoppedForCutover, self.stopped, "the stop"))
        self.log.info("%s writes the outputs; the output of %s input records comes twice", report.live, report.records_again)
        return report


class AbandonSwitchOperator(SwitchStepOperator):
    """After any failure: leave both as the repository says they are. Nothing after success."""

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> rollout.LeftAs:
        """Abandon."""
        left = rollout.abandon(old, clone, self.held_ticket)
        self.log.info("Roles: %s. Started: %s. Next: %s", left.roles, ", ".join(left.started) or "none", left.next_step)
        return left


class PlanUpgradeOperator(PairOperator):
    """Say what an upgrade in one go would do. Changes nothing."""

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> dict[str, str]:
        """Plan."""
        text = upgrade_text(rollout.plan_upgrade(old, clone))
        self.log.info("%s", text)
        return {"text": text, "old": old.config.name}


class BeginUpgradeOperator(BeginSavepointOperator):
    """Begin the savepoint for which the old application is stopped, under conditions that were checked when it was planned."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(mode="stop", changed_state=ChangedState.REFUSE, confirm="", schedule=None, **kwargs)


class OldAndCloneOperator(SavepointStepOperator):
    """A step of an upgrade on the old application, which ``application_name`` names, and its clone ``clone_name``."""

    template_fields: Sequence[str] = (*SavepointStepOperator.template_fields, "clone_name")

    def __init__(self, *, clone_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.clone_name = clone_name


class RetireOperator(OldAndCloneOperator):
    """Put on record that the old application stays down. ``cut`` is the JSON that the capture returned."""

    template_fields: Sequence[str] = (*OldAndCloneOperator.template_fields, "cut")

    def __init__(self, *, cut: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cut = cut

    def step(self, recovery: RecoveryContext, context: Context) -> None:
        """Retire."""
        with context_of(self.clone_name) as clone:
            rollout.retire(recovery, clone, self.held_ticket, received(savepoint.CutSummary, self.cut, "the capture"))


class BringBackOperator(OldAndCloneOperator):
    """The end of an upgrade, however it went: unless the clone is live, the old application runs again."""

    def step(self, recovery: RecoveryContext, context: Context) -> rollout.BroughtBack:
        """Bring back."""
        with context_of(self.clone_name) as clone:
            back = rollout.bring_back(recovery, clone, self.held_ticket)
        self.log.info("%s writes the outputs", back.live)
        return back


class MakeLiveOperator(PairOperator):
    """Put on record that the clone, restored and not started yet, writes the real outputs. ``ticket`` is that of its restore."""

    template_fields: Sequence[str] = ("application_name", "ticket")

    def __init__(self, *, ticket: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket

    def both(self, old: RecoveryContext, clone: RecoveryContext, context: Context) -> rollout.BroughtBack:
        """Make it live."""
        return rollout.make_live(old, clone, received(restore.RestoreTicket, self.ticket, "open"))
