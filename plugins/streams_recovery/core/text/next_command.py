"""Commands to run next, complete and ready to copy."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

PROGRAM = "streams-recovery"
_APPROVE, _PLAN = "--approve", "--plan"


def command(*words: str) -> str:
    """A command of this program, quoted for a shell."""
    return shlex.join([PROGRAM, *words])


def approved(words: Sequence[str], approval: str, *, more: Sequence[str] = ()) -> str:
    """The command that was given, ``words`` of it without the program, so that it carries out the approved plan. It gets ``more`` options too."""
    return command(*_without_approval(words), *more, _APPROVE, approval)


def without_plan(words: Sequence[str]) -> str:
    """The command that was given, so that it does what it showed."""
    return command(*_without_approval(words))


def added(words: Sequence[str], option: str) -> str:
    """The command that was given, with one more option."""
    return command(*(word for word in words if word != option), option)


def _without_approval(words: Iterable[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word == _APPROVE:
            next(rest, None)
        elif word != _PLAN and not word.startswith(f"{_APPROVE}="):
            yield word
