"""``runs.command``: an application that programs stop, start, hold and ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from streams_recovery.config.fields import Argv, Environment, Seconds
from streams_recovery.config.runs.kind import IntervalSection, Kind, StartingKind


class CommandRuns(StartingKind, IntervalSection):
    """Programs that do what is asked, as argument lists, never through a shell. A verb left out is a thing the application cannot do."""

    knows_application_id: ClassVar[bool] = True
    status: Argv
    stop: Argv
    start: Argv
    wipe: Argv
    pause: Argv | None = None
    resume: Argv | None = None
    query: Argv | None = None
    query_keys: Argv | None = None
    environment: Environment = Field(default_factory=dict)
    timeout_seconds: Seconds = 120

    def is_as(self, other: Kind) -> bool:
        """True if it is controlled by the same program."""
        return isinstance(other, CommandRuns) and (self.status, self.environment) == (other.status, other.environment)

    @property
    def no_pause_because(self) -> str | None:
        return "runs.command has no pause and no resume" if self.pause is None else None

    def start_texts(self) -> Iterable[Iterable[str]]:
        """The texts of the one program that starts all instances."""
        return [[*self.start, *self.environment.values()]]

    def cut_over(self, environment: Mapping[str, str], command: Argv | None) -> Self:
        return self.model_copy(update={"environment": {**self.environment, **environment}, "start": command or self.start})

    def in_sandbox(self, section: CommandRuns) -> CommandRuns:
        """The section itself: a sandbox has programs of its own for everything."""
        return section

    def in_slot(self, slot: int, filled: Callable[[str], str]) -> CommandRuns:  # noqa: ARG002 - the same programs serve every slot
        verbs = {verb: tuple(map(filled, argv)) for verb, argv in self if isinstance(argv, tuple)}
        return self.model_copy(update={**verbs, "environment": {name: filled(value) for name, value in self.environment.items()}})

    @model_validator(mode="after")
    def _both_ways(self) -> Self:
        if (self.pause is None) != (self.resume is None):
            raise ValueError("pause and resume go together: what was paused has to go on")
        return self
