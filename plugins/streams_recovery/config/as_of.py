"""The moment that a run asks for."""

from __future__ import annotations

from datetime import timedelta

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.timestamps import EPOCH, parse_moment


def as_of(config: ApplicationConfig, requested: str, by: str) -> AsOf:
    """The moment that was ``asked`` for, or the configured one when that is empty. Raises ``ConfigInvalid`` when there is neither."""
    configured = config.restore.time_window_end
    if not requested.strip() and configured is None:
        raise ConfigInvalid(
            "no moment is given", next_step="name one with its time zone, such as 2026-11-21T12:00:00Z, or set restore.time_window_end"
        )
    moment = parse_moment(requested) if requested.strip() or configured is None else (configured - EPOCH) // timedelta(milliseconds=1)
    return AsOf(moment=moment, by=CutBy(by))
