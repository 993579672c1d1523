"""What others ask of the way in which an application runs. Each kind is a file beside this one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from streams_recovery.config.fields import Argv, Section


class Kind(Section):
    """A section of ``runs`` that describes one way to run an application. One that is nothing more is refused where a clone or a sandbox is configured."""

    @property
    def start_timeout(self) -> float:
        """Seconds an instance gets until it answers."""
        return 120.0

    @property
    def stop_timeout(self) -> float:
        """Seconds an instance gets to close."""
        return 60.0

    @property
    @abstractmethod
    def no_pause_because(self) -> str | None:
        """Why it cannot be paused, None when it can."""


class StartingKind(Kind):
    """A kind with the command and the environment that instances are started with. They can be changed, so a clone or a sandbox can run this way."""

    # True when an instance finds its application id in its environment, whatever is configured.
    knows_application_id: ClassVar[bool] = False

    @abstractmethod
    def start_texts(self) -> list[list[str]]:
        """For each instance: its command and the values of its environment. It knows only names that are in them."""

    @abstractmethod
    def cut_over(self, environment: Mapping[str, str], command: Argv | None) -> Self:
        """With ``environment`` laid over its own, and started by ``command`` if there is one."""

    @abstractmethod
    def in_sandbox(self, section: Any) -> StartingKind:
        """As the sandbox runs whose ``section`` of this kind it is. Raises ``ValueError``."""

    def shared_with(self, sandbox: Self, section: str) -> Iterable[str]:  # noqa: ARG002 - a kind may have nothing of its own
        """What the sandbox of ``section`` must not have in common with this and has, each with its key."""
        return ()


class IntervalSection(Section):
    """How the applications run that process intervals again. ``{interval}`` and ``{slot}`` stand in it."""

    @property
    def most_slots(self) -> int | None:
        """How many intervals can go on at once, None for any number."""
        return None

    @abstractmethod
    def in_slot(self, slot: int, filled: Callable[[str], str]) -> Section | None:
        """The section of the sandbox in a slot, with texts ``filled``. None for a slot that is not there."""
