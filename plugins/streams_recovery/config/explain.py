"""What is wrong with a configuration, said to the person who wrote it: file, line, key, and the key that was probably meant."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.yaml_reader import Document

MAX_PROBLEMS = 20
# A file may hold keys and values of any length.
_MOST_OF_A_KEY = 100
_MOST_OF_A_REASON = 1_000


def problems(errors: Sequence[ErrorDetails], document: Document) -> list[tuple[int, str]]:
    """Line and sentence for each error, in the order of the file. Behind the first ``MAX_PROBLEMS`` only their number: a sentence costs much more than
    an error.
    """
    in_order = sorted(((document.line(error["loc"]), error) for error in errors), key=lambda found: found[0])
    found = sorted({(line, _cut(_sentence(error), _MOST_OF_A_REASON)) for line, error in in_order[:MAX_PROBLEMS]})
    if rest := in_order[MAX_PROBLEMS:]:
        found.append((rest[0][0], f"{len(rest)} more from here on"))
    return found


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _sentence(error: ErrorDetails) -> str:
    place = ".".join(_cut(str(part), _MOST_OF_A_KEY) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {place}{_suggestion(error['loc'])}"
    if error["type"] == "missing":
        return f"{place} is missing{_description(error['loc'])}"
    reason = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{place}: {reason}" if place else reason


def _suggestion(location: tuple[int | str, ...]) -> str:
    *parents, key = location
    here = _fields(_model_at(parents))
    near = difflib.get_close_matches(str(key)[:_MOST_OF_A_KEY], here, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    elsewhere = next((path for path in _every_path() if path[-1] == key), None)
    if elsewhere:
        return f"; it belongs to {'.'.join(elsewhere[:-1]) or 'the top level'}"
    return f"; known here: {', '.join(here)}"


def _description(location: tuple[int | str, ...]) -> str:
    *parents, key = location
    model = _model_at(parents)
    field = model.model_fields.get(str(key)) if model else None
    return f"; {field.description}" if field is not None and field.description else ""


def _fields(model: type[BaseModel] | None) -> list[str]:
    return list(model.model_fields) if model else []


def _model_at(path: Sequence[int | str]) -> type[BaseModel] | None:
    kind: Any = ApplicationConfig
    for part in path:
        model = _model_in(kind)
        # An index, or the free key of a mapping, leads to the kind of thing that the list or the mapping holds.
        inside = isinstance(part, int) or typing.get_origin(kind) is dict
        kind = model if inside or model is None or part not in model.model_fields else model.model_fields[part].annotation
    return _model_in(kind)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model inside ``X | None``, ``tuple[X, ...]`` or ``dict[str, X]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in typing.get_args(annotation) if (model := _model_in(part))), None)


@cache
def _every_path() -> tuple[tuple[str, ...], ...]:
    return tuple(_all_paths(ApplicationConfig))


def _all_paths(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        yield (*above, name)
        inner = _model_in(field.annotation)
        if inner:
            yield from _all_paths(inner, (*above, name))
