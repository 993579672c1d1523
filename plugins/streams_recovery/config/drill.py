"""The ``drill`` section: a restore that is tried on a schedule."""

from __future__ import annotations

from pydantic import Field

from streams_recovery.config.fields import ApplicationId, Schedule, Section, Switch, TopicName
from streams_recovery.config.runs import CommandRuns
from streams_recovery.config.sandbox import Sandbox, SandboxProcess


class Drill(Section):
    """A restore that is tried on a schedule, into an application of its own that is removed afterwards. ``topic_map`` gives every output, and inputs
    that are to be copied, another name; ``schedule`` null or ``none`` means only by hand.
    """

    enabled: Switch = True
    schedule: Schedule = "H 4 * * 6"
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)
    process: SandboxProcess | None = None
    command: CommandRuns | None = None

    @property
    def sandbox(self) -> Sandbox:
        """What it restores into."""
        return Sandbox(
            section="drill",
            application_id=self.application_id,
            topic_map=self.topic_map,
            process=self.process,
            command=self.command,
        )
