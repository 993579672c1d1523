"""The ``archive`` section: inputs that are archived all the time, not only with a savepoint."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from streams_recovery.config.fields import Duration, RateLimits, Section, Switch, explained
from streams_recovery.core.durations import milliseconds
from streams_recovery.core.errors import ConfigInvalid

_LEAST_MS, _MOST_MS = 1_000, 3_600_000


def _interval(text: str) -> str:
    if not _LEAST_MS <= milliseconds(text) <= _MOST_MS:
        raise ConfigInvalid(f"{text} is not from a second to an hour", next_step="write it like PT10S or PT1M")
    return text


class ArchiveSection(Section):
    """Inputs and globals are archived every ``interval``, behind the newest savepoint, so that the loss of a cluster costs seconds of input. It
    reads as much as ``throttle`` allows in an interval. With ``dag`` a DAG archives; without it ``streams-recovery archive`` has to be run as a service.
    """

    enabled: Switch = False
    interval: Annotated[Duration, AfterValidator(explained(_interval))] = "PT10S"
    dag: Switch = True
    throttle: RateLimits = RateLimits()
