"""``${NAME}`` and ``${NAME:-default}`` in configuration text. ``$${`` stands for a literal ``${``."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class VariableError(ValueError):
    """Raised when a variable is not set and has no default, or is not written as one."""


def expand(text: str, environment: Mapping[str, str], *, most: int) -> str:
    """``text`` with its variables replaced, once: what a variable contains is never expanded again.

    A default is used when the variable is not set or empty, as in a shell. Raises ``VariableError``, also when all variables together hold more than
    ``most`` characters.
    """
    left = most

    def value(found: re.Match[str]) -> str:
        nonlocal left
        left -= len(content := _content(found, environment))
        if left < 0:
            raise VariableError("the variables of this file hold too much text")
        return content

    expanded = _VARIABLE.sub(value, text)
    if "${" in _VARIABLE.sub("", text):
        raise VariableError(f"a '${{' in {text[:60]!r} is not closed; write $${{ for the characters themselves")
    return expanded


def _content(found: re.Match[str], environment: Mapping[str, str]) -> str:
    if found.group() == "$${":
        return "${"
    reference = _REFERENCE.fullmatch(found.group(1))
    if reference is None:
        raise VariableError(f"{found.group()[:60]!r} is not a variable; write ${{NAME}} or ${{NAME:-default}}")
    name, default = reference.groups()
    content = environment.get(name)
    if default is not None:
        return content or default
    if content is None:
        raise VariableError(f"the environment variable {name} is not set and has no default; set it or write ${{{name}:-default}}")
    return content
