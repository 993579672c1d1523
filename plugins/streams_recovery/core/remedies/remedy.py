"""A remedy, the condition under which it does no harm, and commands of Kafka's own tools.

A remedy is made by a function of this folder, which takes what the condition needs as its arguments. So none is made where it would do harm.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.words import shell

# The file of a secured cluster's administrator. It contains what a client of Kafka needs to connect: security.protocol, sasl.* and ssl.*.
ADMIN_PROPERTIES: Final = "admin.properties"


class KafkaTool(enum.StrEnum):
    """Kafka's own programs, by the names of their scripts."""

    ACLS = "kafka-acls.sh"
    CONFIGS = "kafka-configs.sh"
    FEATURES = "kafka-features.sh"
    REASSIGN_PARTITIONS = "kafka-reassign-partitions.sh"
    TOPICS = "kafka-topics.sh"
    TRANSACTIONS = "kafka-transactions.sh"


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """Makes commands of Kafka's own tools for one cluster. ``servers`` are its addresses. A ``secured`` cluster takes no command without the connection of an
    administrator.
    """

    servers: str
    secured: bool

    def command(self, tool: KafkaTool, *words: str) -> str:
        """A complete command, quoted for a shell."""
        return shell(tool, "--bootstrap-server", self.servers, *(("--command-config", ADMIN_PROPERTIES) if self.secured else ()), *words)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyKind:
    """``id`` is a stable word. ``condition`` is one sentence: what has to be true before anybody may follow a remedy of this kind."""

    id: str
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A step for a person. ``text`` is the end of a sentence, without a full stop. ``commands`` are complete, each quoted for a shell, and run in
    this order. Where the step is a setting of the configuration, ``setting`` is its line of YAML, with the whole path as its key.
    """

    kind: RemedyKind
    text: str
    commands: tuple[str, ...] = ()
    setting: str = ""

    def __str__(self) -> str:
        return self.text

    @property
    def step(self) -> str:
        """The first command, or else the setting; empty where there is neither."""
        return self.commands[0] if self.commands else self.setting

    @property
    def sentence(self) -> str:
        """The text as a sentence of its own."""
        return f"{self.text[:1].upper()}{self.text[1:]}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The text, then each command."""
        return (self.text, *self.commands)


AS_REFUSED: Final = RemedyKind(
    id="as-refused", condition="What the run would ask at its beginning was asked now, and the answer was a refusal with this next step."
)


def as_refused(next_step: str, *commands: str, setting: str = "") -> Remedy:
    """The next step that the refusal itself names."""
    return Remedy(kind=AS_REFUSED, text=next_step, commands=commands, setting=setting)


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    return (as_refused("stop the application, or wait until its run ends"),)
