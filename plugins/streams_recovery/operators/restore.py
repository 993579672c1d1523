"""The steps of a restore in place, in the order in which they are taken. The Spark steps are in spark.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery.config.as_of import as_of
from streams_recovery.config.directory import config_directory, load_application
from streams_recovery.config.offsets import inside, offset_strategy
from streams_recovery.core.names import checked_name
from streams_recovery.core.restore.plan import require_agreement
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.text.restore_plan import markdown
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import NOTHING, StepOperator, received
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.operators.spark import SparkOutcome


class RequestedOperator(StepOperator):
    """A step that starts from what a person asked for. ``asked`` has a template of a run's param for every field of ``RestoreRequest``; ``source``
    in it is the configured name of an application, or empty, and empty ``offsets`` leave it to the configuration where the application goes on. With
    ``by`` in it the application is brought to the moment ``as_of``, the configured one when that is empty.
    """

    template_fields: Sequence[str] = ("application_name", "asked")

    def __init__(self, *, asked: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked = dict(asked)

    def request(self, recovery: RecoveryContext) -> restore.RestoreRequest:
        """The request itself. A rendered boolean is a text."""
        asked = self.asked
        return restore.RestoreRequest(
            source=load_application(asked["source"]).application.id if asked["source"] else "",
            savepoint=asked["savepoint"],
            allow_ahead=asked["allow_ahead"] == "True",
            allow_damaged=asked["allow_damaged"] == "True",
            replace=asked["replace"] == "True",
            delete=tuple(checked_name("topic", name) for name in asked["delete"].replace(",", " ").split()),
            safety=restore.SafetyPolicy(asked["safety"]),
            confirm=asked["confirm"],
            reason=asked["reason"],
            offsets=offset_strategy(recovery.config, asked["offsets"], read=inside(config_directory())),
            outputs=restore.OutputPolicy(asked.get("outputs", restore.OutputPolicy.KEEP)),
            accept_gap=asked.get("accept_gap") == "True",
            inputs_from=asked.get("inputs_from", ""),
            as_of=as_of(recovery.config, asked["as_of"], asked["by"]) if "by" in asked else None,
            in_place=asked.get("in_place") == "True",
            groups=tuple(asked.get("groups", "").replace(",", " ").split()),
            compare_keys=asked.get("compare_keys") == "True",
        )


class PlanRestoreOperator(RequestedOperator):
    """Say what the restore would do. Changes nothing; the result is what is approved."""

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str | None]:
        """Plan."""
        request, began_at = self.request(recovery), recovery.clock()
        planned = restore.plan(recovery, request)
        text = markdown(planned)
        self.log.info("%s", text)
        require_agreement(planned, request)
        return {"hash": planned.hash, "savepoint": planned.savepoint_id, "text": text, "began_at": str(began_at)}


class OpenRestoreOperator(RequestedOperator):
    """Take the lock and plan again under it. ``approved_hash`` is the plan that was approved; another one stops here."""

    template_fields: Sequence[str] = (*RequestedOperator.template_fields, "approved_hash")

    def __init__(self, *, approved_hash: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approved_hash = approved_hash

    def step(self, recovery: RecoveryContext, context: Context) -> restore.RestoreTicket:
        """Open."""
        return restore.open_restore(
            recovery,
            self.request(recovery),
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            approved_hash=self.approved_hash,
        )


class RestoreStepOperator(StepOperator):
    """A step of a restore that is open. ``ticket`` is the JSON that open returned."""

    template_fields: Sequence[str] = ("application_name", "ticket")

    def __init__(self, *, ticket: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket

    @property
    def held_ticket(self) -> restore.RestoreTicket:
        """The ticket itself."""
        return received(restore.RestoreTicket, self.ticket, "open")


class StopApplicationOperator(RestoreStepOperator):
    """Stop every instance, prove it, and empty the group."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.StopSummary:
        """Stop."""
        return restore.stop(recovery, self.held_ticket)


class SaveStateOperator(RestoreStepOperator):
    """Read the cut of what is about to be replaced."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.SafetyBegun:
        """Save."""
        return restore.save_state(recovery, self.held_ticket)


class KeepStateOperator(RestoreStepOperator):
    """Publish the safety savepoint. ``begun`` and ``copied`` are the JSON that saving and the copy returned; a copy that failed and need not succeed has
    returned nothing.
    """

    template_fields: Sequence[str] = ("application_name", "ticket", "begun", "copied")

    def __init__(self, *, begun: str, copied: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.begun = begun
        self.copied = copied

    def step(self, recovery: RecoveryContext, context: Context) -> restore.SafetySummary:
        """Keep."""
        begun = received(restore.SafetyBegun, self.begun, "saving the state")
        copied = None if self.copied == NOTHING else received(SparkOutcome, self.copied, "the Spark job").result
        return restore.keep_state(recovery, self.held_ticket, begun, copied)


class PrepareTopicsOperator(RestoreStepOperator):
    """Create the internal topics, empty and under hold."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.PrepareSummary:
        """Prepare."""
        return restore.prepare(recovery, self.held_ticket)


class CheckedStepOperator(RestoreStepOperator):
    """A step after a Spark job. ``outcome`` is the JSON that the job's task returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "outcome")

    def __init__(self, *, outcome: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.outcome = outcome

    @property
    def result(self) -> ArtifactRef | None:
        """What the job has left."""
        return received(SparkOutcome, self.outcome, "the Spark job").result


class CheckLoadOperator(CheckedStepOperator):
    """Compare what was written with the plan and with the logs' ends."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.LoadSummary:
        """Check."""
        return restore.check_load(recovery, self.held_ticket, self.result)


class ComparedStepOperator(CheckedStepOperator):
    """A step after a comparison, whose ``outcome`` it is, if there was one. ``loaded`` is the JSON that checking the load returned."""

    template_fields: Sequence[str] = (*CheckedStepOperator.template_fields, "loaded")

    def __init__(self, *, loaded: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.loaded = loaded

    @property
    def load(self) -> ArtifactRef | None:
        """What the load has left."""
        return received(restore.LoadSummary, self.loaded, "checking the load").result


class VerifyChangelogsOperator(ComparedStepOperator):
    """Fail unless there is a proof for every partition that it is equal to the savepoint's."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.VerifySummary:
        """Verify."""
        return restore.check_verify(recovery, self.held_ticket, self.load, self.result)


class StopBeforeIntervalOperator(RestoreStepOperator):
    """Wait until what comes before an interval is processed, and stop the application there."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.EndsSummary:
        """Stop."""
        return restore.stop_before_interval(recovery, self.held_ticket)


class StartAgainOperator(RestoreStepOperator):
    """Start the application on the interval, and wait until it is at work."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.StartSummary:
        """Start."""
        return restore.start_again(recovery, self.held_ticket)


class CheckFeedOperator(CheckedStepOperator):
    """Compare what was written with the plan and with the logs' ends."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.LoadSummary:
        """Check."""
        return restore.check_feed(recovery, self.held_ticket, self.result)


class VerifyFeedOperator(ComparedStepOperator):
    """Fail unless there is a proof for every input that it is equal to the archive's. ``verified`` is the JSON that verifying before the start returned."""

    template_fields: Sequence[str] = (*ComparedStepOperator.template_fields, "verified")

    def __init__(self, *, verified: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verified = verified

    def step(self, recovery: RecoveryContext, context: Context) -> restore.VerifySummary:
        """Verify."""
        before = received(restore.VerifySummary, self.verified, "verifying")
        return restore.check_verify_feed(recovery, self.held_ticket, before, self.load, self.result)


class VerifyClearedOperator(RestoreStepOperator):
    """Fail unless every internal topic is gone. ``verified`` is the JSON that verifying what was loaded returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "verified")

    def __init__(self, *, verified: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verified = verified

    def step(self, recovery: RecoveryContext, context: Context) -> restore.ClearedSummary:
        """Verify."""
        return restore.verify_cleared(recovery, self.held_ticket, received(restore.VerifySummary, self.verified, "verifying"))


class ResetConsumerGroupOperator(RestoreStepOperator):
    """Set committed offsets and their metadata, and read them back."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.OffsetsSummary:
        """Set."""
        return restore.set_offsets(recovery, self.held_ticket)


class WipeStateOperator(RestoreStepOperator):
    """Remove local state on every instance."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.WipeSummary:
        """Wipe."""
        return restore.wipe(recovery, self.held_ticket)


class StartApplicationOperator(RestoreStepOperator):
    """Start every instance on the restored state."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.StartSummary:
        """Start."""
        return restore.start(recovery, self.held_ticket)


class AwaitRecoveredOperator(RestoreStepOperator):
    """Wait until the application is RUNNING and caught up. ``started`` is the JSON that start returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "started")

    def __init__(self, *, started: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.started = started

    def step(self, recovery: RecoveryContext, context: Context) -> restore.RecoveredSummary:
        """Wait."""
        return restore.await_recovered(recovery, self.held_ticket, received(restore.StartSummary, self.started, "start"))


class StopAtEndsOperator(RestoreStepOperator):
    """Wait until the application has processed all there is, and stop it there."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.EndsSummary:
        """Stop."""
        return restore.drain(recovery, self.held_ticket)


class FinishRestoreOperator(RestoreStepOperator):
    """Release holds, write the evidence of what the verification found, give the lock back. ``verified`` is the JSON that it returned, and ``recovered``
    that of waiting for the application.
    """

    template_fields: Sequence[str] = ("application_name", "ticket", "verified", "recovered")

    def __init__(self, *, recovered: str, verified: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.recovered = recovered
        self.verified = verified

    def step(self, recovery: RecoveryContext, context: Context) -> restore.RestoreReport:
        """Finish."""
        verified = received(restore.VerifySummary, self.verified, "verifying")
        asked = received(restore.RecoveredSummary, self.recovered, "waiting for the application").asked
        return restore.finish(recovery, self.held_ticket, verified, asked)


class AbandonRestoreOperator(RestoreStepOperator):
    """After any failure: bring the application back while nothing was destroyed, else leave it down and say what to do. Nothing after success."""

    def step(self, recovery: RecoveryContext, context: Context) -> restore.AbandonReport:
        """Abandon."""
        report = restore.abandon(recovery, self.held_ticket)
        self.log.info("Restore left in phase %s: %s", report.phase, report.next_step)
        return report
