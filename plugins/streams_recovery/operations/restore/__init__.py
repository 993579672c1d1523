"""Bringing an application back in place: plan, (approve), open, stop, save what is there, prepare, load, verify, set offsets, wipe, start, wait, finish."""

from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.report import RestoreReport, Verdict
from streams_recovery.core.restore.request import OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.operations.restore.append import (
    AppendPlan,
    AppendReport,
    AppendTicket,
    finish_append,
    leave_append,
    open_append,
    plan_append,
    plan_append_job,
)
from streams_recovery.operations.restore.deferred_input import (
    check_load_deferred,
    check_verify_deferred,
    drain_before_interval,
    plan_load_deferred,
    plan_verify_deferred,
    start_on_interval,
)
from streams_recovery.operations.restore.drain import drain
from streams_recovery.operations.restore.load import check_load, plan_load, prepare, prepare_topics
from streams_recovery.operations.restore.open import abandon, open_restore, stop, stored_plan
from streams_recovery.operations.restore.plan import plan
from streams_recovery.operations.restore.report import checked_evidence, evidence
from streams_recovery.operations.restore.resume import check_free, phase_of, plan_left, resume, unfinished_one
from streams_recovery.operations.restore.safety import keep_state, save_state
from streams_recovery.operations.restore.start import await_recovered, finish, finish_topics, set_offsets, start, wipe, wipe_noted
from streams_recovery.operations.restore.strategies import (
    AsOfMoment,
    FromSavepoint,
    OfInterval,
    Rebuild,
    RestoreRequest,
    RestoreTopics,
    Undo,
)
from streams_recovery.operations.restore.strategies.interval import records_of
from streams_recovery.operations.restore.values import (
    AbandonReport,
    ClearedSummary,
    EndsSummary,
    LoadSummary,
    OffsetsSummary,
    PrepareSummary,
    RecoveredSummary,
    RestoreTicket,
    SafetyBegun,
    SafetySummary,
    StartSummary,
    StopSummary,
    VerifySummary,
    WipeSummary,
)
from streams_recovery.operations.restore.verify import check_verify, plan_verify, verify_cleared

__all__ = [
    "AbandonReport",
    "AppendPlan",
    "AppendReport",
    "AppendTicket",
    "AsOfMoment",
    "ClearedSummary",
    "EndsSummary",
    "FromSavepoint",
    "LoadSummary",
    "OfInterval",
    "OffsetsSummary",
    "OutputPolicy",
    "PrepareSummary",
    "Rebuild",
    "RecoveredSummary",
    "RestorePlan",
    "RestoreReport",
    "RestoreRequest",
    "RestoreTicket",
    "RestoreTopics",
    "Safeguards",
    "SafetyBegun",
    "SafetyPolicy",
    "SafetySummary",
    "StartSummary",
    "StopSummary",
    "Undo",
    "Verdict",
    "VerifySummary",
    "WipeSummary",
    "abandon",
    "await_recovered",
    "check_free",
    "check_load",
    "check_load_deferred",
    "check_verify",
    "check_verify_deferred",
    "checked_evidence",
    "drain",
    "drain_before_interval",
    "evidence",
    "finish",
    "finish_append",
    "finish_topics",
    "keep_state",
    "leave_append",
    "open_append",
    "open_restore",
    "phase_of",
    "plan",
    "plan_append",
    "plan_append_job",
    "plan_left",
    "plan_load",
    "plan_load_deferred",
    "plan_verify",
    "plan_verify_deferred",
    "prepare",
    "prepare_topics",
    "records_of",
    "resume",
    "save_state",
    "set_offsets",
    "start",
    "start_on_interval",
    "stop",
    "stored_plan",
    "unfinished_one",
    "verify_cleared",
    "wipe",
    "wipe_noted",
]
