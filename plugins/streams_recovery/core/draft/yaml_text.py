"""YAML as a person would write it, with a comment behind lines. Only what a configuration has: mappings, lists and plain values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from streams_recovery.core.draft.secret_words import Template
from streams_recovery.core.escaping import visible

Path = tuple[str, ...]
Notes = Mapping[Path, str]
# What needs no quotes anywhere, if it is not one of these words: YAML 1.1 has many names for true and false.
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_LONGEST_LINE: Final = 120
_INDENT: Final = "  "


def yaml_text(document: Mapping[str, Any], notes: Notes) -> str:
    """The text of a document. ``notes`` are comments by the path of the key that they stand behind."""
    return "".join(f"{line}\n" for line in _mapping(document, notes, ()))


def _mapping(found: Mapping[str, Any], notes: Notes, path: Path) -> Iterator[str]:
    for key, value in found.items():
        here = (*path, key)
        begin = f"{_INDENT * len(path)}{_text(key)}:"
        note = f"   # {visible(notes[here])}" if here in notes else ""
        within = any(one[: len(here)] == here and one != here for one in notes)
        flow = f"{begin} {flow_text(value)}"
        if not _has_entries(value) or (path and not within and not _is_deep(value) and len(flow) <= _LONGEST_LINE):
            yield flow + note
        elif isinstance(value, Mapping):
            yield begin + note
            yield from _mapping(value, notes, here)
        else:
            yield begin + note
            yield from (f"{_INDENT * len(here)}- {flow_text(one)}" for one in value)


def _has_entries(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _is_deep(value: Any) -> bool:
    """True for what holds something that holds something."""
    inside = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(one, Mapping | list | tuple) for one in inside)


def flow_text(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {flow_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    # A number of a file knows how it was written: 010 is not 10.
    return (
        str(getattr(value, "written", value))
        if isinstance(value, int | float)
        else _text(value if isinstance(value, Template) else str(value))
    )


def _text(text: str) -> str:
    """A text as YAML 1.1 reads it back, with what would be a variable of a configuration written out."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    meant = text if isinstance(text, Template) else text.replace("${", "$${")
    return '"' + "".join(map(_escaped, meant)) + '"'


def _escaped(one: str) -> str:
    if one in '"\\':
        return f"\\{one}"
    return one if one.isprintable() and one.isascii() else f"\\U{ord(one):08x}"
