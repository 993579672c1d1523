"""Base classes of the ways in which an application runs. Each kind is a file beside this one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import PurePath
from typing import Any, ClassVar, Final, Self

from streams_recovery.config.fields import Argv, Section

# Characters. Placeholders are filled for each instance, and each name is looked for in all of it: without a limit a small file makes gigabytes of that.
_MOST_TEXT: Final = 4 << 20
_MOST_SEARCHED: Final = 64 << 20
# What a text costs, however short it is.
_EACH_TEXT: Final = 64


class TooMuchText(ValueError):
    """Raised when it would take long to tell which names instances are started with."""


class StartTexts:
    """The texts that each instance is started with. A name that is in none of them it does not know. Raises ``TooMuchText``."""

    def __init__(self, instances: Iterable[Iterable[str]]) -> None:
        self._instances: list[frozenset[str]] = []
        left = _MOST_TEXT
        for instance in instances:
            texts = set()
            for text in instance:
                left -= len(text) + _EACH_TEXT
                if left < 0:
                    raise TooMuchText("command and environment of all instances are too long together: make them shorter")
                texts.add(text)
            self._instances.append(frozenset(texts))
        self._texts = frozenset(chain.from_iterable(self._instances))
        self._each = sum(len(text) + _EACH_TEXT for text in self._texts) + sum(map(len, self._instances))
        self._left = _MOST_SEARCHED

    def everywhere(self, name: str) -> bool:
        """True if every instance is told of ``name``."""
        found = self._with(name)
        return all(not found.isdisjoint(texts) for texts in self._instances)

    def is_one(self, name: str) -> bool:
        """True if some instance is started with ``name`` by itself."""
        return name in self._texts

    def _with(self, name: str) -> frozenset[str]:
        self._left -= self._each
        if self._left < 0:
            raise TooMuchText("there are too many names to look for in command and environment of all instances: make these shorter")
        return frozenset(text for text in self._texts if name in text)


class Kind(Section):
    """A section of ``runs`` that describes one way to run an application. One that is nothing more is refused where a clone or a sandbox is configured."""

    def is_as(self, other: Kind) -> bool:
        """True when the two run one and the same application, so that neither could be told from the other."""
        return self == other

    def reached(self, state: PurePath) -> Iterator[str]:  # noqa: ARG002 - not every kind knows where it is
        """The processes and directories that a stop, a pause or a wipe acts on, in words. Two applications may share none of them. ``state`` is the folder of
        the application's state within its state directory.
        """
        yield from ()

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
        """The reason why it cannot be paused, None when it can."""


class StartingKind(Kind):
    """A kind with the command and the environment that instances are started with. They can be changed, so a clone or a sandbox can run this way."""

    # True when an instance finds its application id in its environment, whatever is configured.
    knows_application_id: ClassVar[bool] = False

    @abstractmethod
    def start_texts(self) -> Iterable[Iterable[str]]:
        """For each instance: its command and the values of its environment. It knows only names that are in them."""

    @abstractmethod
    def cut_over(self, environment: Mapping[str, str], command: Argv | None) -> Self:
        """With ``environment`` laid over its own, and started by ``command`` if there is one."""

    @abstractmethod
    def in_sandbox(self, section: Any) -> StartingKind:
        """As the sandbox runs whose ``section`` of this kind it is. Raises ``ValueError``."""

    def shared_with(self, sandbox: Self, section: str) -> Iterable[str]:  # noqa: ARG002 - a kind may have nothing of its own
        """Everything that the sandbox of ``section`` must not have in common with this and has, each with its key."""
        return ()


class IntervalSection(Section):
    """A section for the applications that process intervals again. ``{interval}`` and ``{slot}`` stand in it."""

    @property
    def most_slots(self) -> int | None:
        """The number of intervals that can go on at once, None for any number."""
        return None

    @abstractmethod
    def in_slot(self, slot: int, filled: Callable[[str], str]) -> Section | None:
        """The section of the sandbox in a slot, with texts ``filled``. None for a slot that is not there."""
