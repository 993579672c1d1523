"""Commands to run next, complete and ready to copy."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

PROGRAM = "streams-recovery"
_RAW = "\udc80\udcff"
_APPROVE, _PLAN, _CONFIGS = "--approve", "--plan", "--configs"


def command(*words: str) -> str:
    """A command of this program, quoted for a shell."""
    return shell(PROGRAM, *words)


def shell(*words: str) -> str:
    """A command on one line. A word with characters that control a terminal is quoted as bash, zsh and ksh read it."""
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'" for word in words)


def _escaped(one: str) -> str:
    if one.isprintable() and one not in "\\'":
        return one
    # Bytes that are no text come from arguments and names of files as such surrogates.
    errors = "surrogateescape" if _RAW[0] <= one <= _RAW[-1] else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in one.encode(errors=errors))


def approved(words: Sequence[str], approval: str, *, more: Sequence[str] = ()) -> str:
    """The given command with the approval of its plan. ``words`` are the command's words without the program name; ``more`` are further options."""
    return command(*_without_approval(words), *more, _APPROVE, approval)


def without_plan(words: Sequence[str]) -> str:
    """The given command without ``--plan``, so that it carries out the plan."""
    return command(*_without_approval(words))


def added(words: Sequence[str], option: str) -> str:
    """The given command with one more option."""
    return command(*(word for word in words if word != option), option)


def with_configs(words: Sequence[str], command: str) -> str:
    """A command for the same configuration files as the one that was given in ``words``. One that names its files, or is of another program, stays."""
    program, *options = shlex.split(command)
    if program != PROGRAM or any(word == _CONFIGS or word.startswith(f"{_CONFIGS}=") for word in options):
        return command
    for number, word in enumerate(words):
        if word.startswith(f"{_CONFIGS}="):
            return f"{command} {shell(word)}"
        if word == _CONFIGS and number + 1 < len(words):
            return f"{command} {shell(*words[number : number + 2])}"
    return command


def _without_approval(words: Iterable[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word == _APPROVE:
            next(rest, None)
        elif word != _PLAN and not word.startswith(f"{_APPROVE}="):
            yield word
