"""What a person may write for a value of the core. The value says it beside each of its fields, and a reader of a file refuses anything else."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated


class TextRule(enum.Enum):
    """A rule for a text. A ``duration`` is one of ISO 8601; its value is a number of seconds. The others are lists: names of ``topics`` or
    of ``inputs``, ``patterns`` of topics as a program subscribes to them, and ``globs``.
    """

    DURATION = "duration"
    TOPICS = "topics"
    INPUTS = "inputs"
    PATTERNS = "patterns"
    GLOBS = "globs"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberBounds:
    """Bounds of a number; None is no bound. ``above`` and ``below`` are not allowed themselves. A person writes it ``whole``, or with a point as well."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    whole: bool = False


Duration = Annotated[float, TextRule.DURATION]
TopicNames = Annotated[tuple[str, ...], TextRule.TOPICS]
Globs = Annotated[tuple[str, ...], TextRule.GLOBS]
