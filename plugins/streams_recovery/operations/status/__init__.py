"""The status of an application: looked at by the monitor, stored as one object, and read from there by everybody else."""

from __future__ import annotations

from streams_recovery.operations.status.cluster import ping
from streams_recovery.operations.status.log import newest, record
from streams_recovery.operations.status.look import kept_current, observe, refresh, watch
from streams_recovery.operations.status.notices import Notice, Tell, open_alerts, run_ended, tell_news

__all__ = [
    "Notice",
    "Tell",
    "kept_current",
    "newest",
    "observe",
    "open_alerts",
    "ping",
    "record",
    "refresh",
    "run_ended",
    "tell_news",
    "watch",
]
