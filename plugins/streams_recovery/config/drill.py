"""The ``drill`` section: a restore that is tried on a schedule."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from streams_recovery.config.fields import ApplicationId, Switch, TopicName, named
from streams_recovery.config.rules import Schedule
from streams_recovery.config.runs import SandboxRuns
from streams_recovery.config.sandbox import Sandbox


class Drill(SandboxRuns):
    """A restore that is tried on a schedule, into an application of its own that is removed afterwards. ``topic_map`` gives every output, and inputs
    that are to be copied, another name; ``schedule`` null or ``none`` means only by hand. ``site`` is the one whose cluster it is at, null the one that the
    application belongs to.
    """

    enabled: Switch = True
    schedule: Schedule = "H 4 * * 6"
    site: Annotated[str, AfterValidator(named("site"))] | None = None
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)

    @property
    def sandbox(self) -> Sandbox:
        """What it restores into."""
        return Sandbox(section="drill", application_id=self.application_id, topic_map=self.topic_map, runs=self)
