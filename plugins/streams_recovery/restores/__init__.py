"""Bringing an application back in place: plan, (approve), open, stop, prepare, load, verify, set offsets, wipe, start, wait, finish."""

from streams_recovery.core.plan import RestorePlan, RestoreRequest
from streams_recovery.restores.loading import check_load, check_verify, plan_load, plan_verify, prepare
from streams_recovery.restores.opening import abandon, open_restore, stop
from streams_recovery.restores.planning import plan
from streams_recovery.restores.returning import await_recovered, finish, set_offsets, start, wipe
from streams_recovery.restores.values import (
    AbandonReport,
    LoadSummary,
    OffsetsSummary,
    PrepareSummary,
    RecoveredSummary,
    RestoreReport,
    RestoreTicket,
    StartSummary,
    StopSummary,
    VerifySummary,
    WipeSummary,
)

__all__ = [
    "AbandonReport",
    "LoadSummary",
    "OffsetsSummary",
    "PrepareSummary",
    "RecoveredSummary",
    "RestorePlan",
    "RestoreReport",
    "RestoreRequest",
    "RestoreTicket",
    "StartSummary",
    "StopSummary",
    "VerifySummary",
    "WipeSummary",
    "abandon",
    "await_recovered",
    "check_load",
    "check_verify",
    "finish",
    "open_restore",
    "plan",
    "plan_load",
    "plan_verify",
    "prepare",
    "set_offsets",
    "start",
    "stop",
    "wipe",
]
