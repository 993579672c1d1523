"""The ``runs`` section, and the sections that a sandbox has in its place: the way in which an application is stopped, started, held and asked.

A kind is a file of this package, and a line in each class here that offers it. Others know a kind by the base classes in ``kind``.
"""

from __future__ import annotations

from typing import Final, Literal, Self, get_args

from pydantic import model_validator

from streams_recovery.config.fields import Argv, Environment, Section
from streams_recovery.config.runs.command import CommandRuns
from streams_recovery.config.runs.kind import IntervalSection, Kind, StartingKind
from streams_recovery.config.runs.kubernetes import KubernetesRuns
from streams_recovery.config.runs.process import ProcessRuns, ReprocessProcess, SandboxProcess

KindName = Literal["process", "command", "kubernetes"]
KINDS: Final[tuple[str, ...]] = get_args(KindName)


class SandboxRuns(Section):
    """The way in which a sandbox runs: a section for each kind that can run in one."""

    process: SandboxProcess | None = None
    command: CommandRuns | None = None


class IntervalRuns(Section):
    """The way in which the applications run that process intervals again: a section for each kind that can."""

    process: ReprocessProcess | None = None
    command: CommandRuns | None = None

    def section_of(self, kind: str) -> IntervalSection | None:
        """The section of a kind, None when there is none."""
        found: IntervalSection | None = getattr(self, kind, None)
        return found


class Runs(Section):
    """The way in which an application runs. Sections of ways not chosen are checked but unused, so that a variable can choose between them."""

    kind: KindName
    process: ProcessRuns | None = None
    command: CommandRuns | None = None
    kubernetes: KubernetesRuns | None = None

    @property
    def chosen(self) -> Kind:
        """The section of the kind that is chosen."""
        found: Kind = getattr(self, self.kind)
        return found

    def starting(self, wanted_by: str) -> StartingKind:
        """The chosen section for a clone or a sandbox, which ``wanted_by`` names. Raises ``ValueError`` for a kind that cannot run one."""
        if isinstance(self.chosen, StartingKind):
            return self.chosen
        raise ValueError(
            f"{wanted_by}: an application with runs.kind {self.kind} cannot be started under other names, so it cannot have this section"
        )

    def cut_over(self, environment: Environment, command: Argv | None) -> Self:
        """The section with ``environment`` laid over its own, and with ``command`` in place of its own. Raises ``ValueError``."""
        return self._with(self.starting("clone").cut_over(environment, command))

    def in_sandbox(self, sandbox: SandboxRuns, section: str) -> Self:
        """The ``runs`` section of the sandbox of ``section``. Raises ``ValueError`` when that says nothing of this kind, or cannot run this way."""
        own = self.starting(section)
        found = getattr(sandbox, self.kind, None)
        if found is None:
            raise ValueError(f"{section}.{self.kind} is missing: runs.kind is {self.kind}, and {section} runs the same way")
        return self._with(own.in_sandbox(found))

    def _with(self, chosen: Kind) -> Self:
        return self.model_copy(update={**dict.fromkeys(KINDS), self.kind: chosen})

    @model_validator(mode="after")
    def _chosen(self) -> Self:
        if getattr(self, self.kind) is None:
            raise ValueError(f"kind is {self.kind}, so the section {self.kind} is needed")
        return self
