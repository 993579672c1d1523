"""The words that the program was called with: what to run next is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

_given: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


def remember(words: Sequence[str]) -> None:
    """Keep the words of this call, without the program's own name."""
    _given.set(tuple(words))


def words() -> tuple[str, ...]:
    """What the program was called with, without its own name."""
    return _given.get()
