"""The ``deploy`` section: what puts the version there that is started, and how a new one is watched."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from streams_recovery.config.fields import Argv, Duration, Integer, Section, explained
from streams_recovery.core.rollout.upgrade import watched_for


def _some_time(text: str) -> str:
    watched_for(text)
    return text


class Deploy(Section):
    """A program that every restore and every upgrade in place runs before it starts the application, as an argument list, never through a shell. It makes the
    version that is to run be there, and returns when it is. It may be run again: a restore that is resumed runs it once more. ``roll_back`` is the same for the
    version that runs now: an upgrade that fails is taken back by it.

    A new version is watched for as long as ``watch`` says, and may be ``max_lag`` input records behind, any number when it is not set.
    """

    command: Argv
    # The step that starts an application may take half an hour.
    timeout_seconds: Annotated[Integer, Field(ge=1, le=1_500)] = 600
    roll_back: Argv | None = None
    watch: Annotated[Duration, AfterValidator(explained(_some_time))] = "PT10M"
    max_lag: Annotated[Integer, Field(ge=0)] | None = None
