"""The words that the program was called with: what to run next is made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_given: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


@contextmanager
def remembered(words: Sequence[str]) -> Iterator[None]:
    """Keep the words of this call, without the program's own name, until it ends."""
    token = _given.set(tuple(words))
    try:
        yield
    finally:
        _given.reset(token)


def words() -> tuple[str, ...]:
    """What the program was called with, without its own name."""
    return _given.get()
