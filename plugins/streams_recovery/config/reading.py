"""Reading a configuration file: YAML as plain data with line numbers, variables, and messages about mistakes for the person who wrote it.

Only mappings, lists and scalars: no tags, no anchors or aliases (a few lines of them can grow to gigabytes), no duplicate keys, one document.

A variable is ``${NAME}`` or ``${NAME:-default}``, and ``$${`` stands for a literal ``${``. Variables are replaced in values, never in keys, after parsing, so
their content cannot change the structure.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Any, cast

import yaml
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from yaml.composer import Composer

from streams_recovery.config.fields import Decimal, WholeNumber, section_of
from streams_recovery.config.model import ApplicationConfig

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_NODES = 10_000
MAX_PROBLEMS = 20
# A file may hold keys and values of any length.
_MOST_OF_A_KEY = 100
_MOST_OF_A_REASON = 1_000
_LISTS, _MAPPINGS = ("tuple_type", "list_type"), ("dict_type", "model_type", "model_attributes_type")
_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NULL, _BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float"))

Path = tuple[str | int, ...]


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


class YamlError(ValueError):
    """Raised when the text is not the YAML we accept. ``line`` counts from one; None when no line can be named."""

    def __init__(self, reason: str, line: int | None, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.line, self.hint = reason, line, hint


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file, and the line of every key and list item in it."""

    data: dict[str, Any]
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of ``path``, or of the nearest part of the file that contains it. Parts that are not in the file are skipped."""
        known: Path = ()
        for part in path:
            if (*known, part) in self.lines:
                known = (*known, part)
        return self.lines.get(known, 1)


def read(content: bytes, environment: Mapping[str, str]) -> Document:
    """The document in ``content``. Raises ``YamlError``."""
    if len(content) > MAX_BYTES:
        raise YamlError(
            f"the file has {len(content)} bytes; {MAX_BYTES} are allowed", None, "an application's configuration is a few hundred lines"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError(f"the file is not UTF-8 text (byte {error.start})", None, "save it as UTF-8") from error
    try:
        root = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error).splitlines()[0], None, "remove the character") from error
    if not isinstance(root, yaml.MappingNode):
        raise YamlError("the file holds no keys", 1, "start from include/configs/reference.yaml.example")
    document = Document({})
    document.data.update(_Reader(environment, document.lines).mapping(root, ()))
    return document


if yaml.__with_libyaml__:

    class _Nodes(Composer, yaml.CSafeLoader):
        """Nodes composed by Python, which can be bounded, of the events of libyaml: those of Python take ten times as long, and every DAG file reads all
        configurations.
        """

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)

else:
    # mypy knows only the class above, which it is in place of.
    _Nodes = yaml.SafeLoader  # type: ignore[misc,assignment,unused-ignore]


class _Loader(_Nodes):
    depth = 0
    nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        # Here, because the library composes a document by recursion: a file of brackets would end in a RecursionError.
        if self.depth > MAX_DEPTH:
            raise YamlError("the file is nested too deeply", event.start_mark.line + 1, f"{MAX_DEPTH} levels are allowed")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise YamlError(
                "anchors and aliases (& and *) are not allowed",
                event.start_mark.line + 1,
                'write the value out; a schedule or glob that begins with * needs quotes, like "* * * * *"',
            )
        tag = getattr(event, "tag", None)
        if tag:
            raise YamlError(f"the tag {tag!r:.80} is not allowed", event.start_mark.line + 1, "remove it; only plain values can be used")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise YamlError(
                f"the file has more than {MAX_NODES} keys and values",
                event.start_mark.line + 1,
                "an application's configuration is a few hundred lines",
            )
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


@dataclass(slots=True)
class _Reader:
    environment: Mapping[str, str]
    lines: dict[Path, int]
    # What variables may still add to the file.
    left: int = MAX_BYTES

    def value(self, node: yaml.Node, path: Path) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(child, (*path, index)) for index, child in enumerate(node.value)]
        return self._scalar(node)

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, child in node.value:
            key = key_node.value
            if not isinstance(key, str) or not isinstance(key_node, yaml.ScalarNode):
                raise YamlError("a key must be text", _line(key_node), "write 'key: value'")
            if key in result:
                first = self.lines[*path, key]
                raise YamlError(f"the key {key!r:.80} is there twice, first in line {first}", _line(key_node), "keep one of them")
            self.lines[*path, key] = _line(key_node)
            result[key] = self.value(child, (*path, key))
        return result

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self.lines[path] = _line(node)
        return self.value(node, path)

    def _scalar(self, node: yaml.Node) -> Any:
        text: str = node.value
        if "${" in text:
            return self._expanded(node, text)
        if node.tag == _NULL:
            return None
        if node.tag == _BOOL:
            return text.lower() in ("yes", "true", "on")
        if node.tag in (_INT, _FLOAT):
            return _numeral(text)
        # Everything else, dates included, stays the text it was written as.
        return text

    def _expanded(self, node: yaml.Node, text: str) -> str | None:
        try:
            expanded = expand(text, self.environment, most=self.left)
        except VariableError as error:
            raise YamlError(str(error), _line(node), "see docs/configuration.md, Variables") from error
        self.left -= len(expanded)
        # An unquoted value that came out empty is what an unquoted empty value is in YAML: null. What is unquoted has no style, which libyaml calls "".
        plain = isinstance(node, yaml.ScalarNode) and not node.style
        return None if plain and not expanded else expanded


def _numeral(text: str) -> int | float | str:
    # YAML 1.1 reads 017 as octal and 1:30 as sixty-based; a configuration never means that.
    for kind in (WholeNumber, Decimal):
        try:
            number = kind(text)
        except ValueError:
            continue
        number.written = text
        return number
    return text


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _explained(error: yaml.MarkedYAMLError, text: str) -> YamlError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "the text is not YAML"
    hint = "check quotes and indentation"
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        hint = "replace the tab by spaces: YAML is indented with spaces only"
    elif "cannot start any token" in problem:
        hint = "put the value in quotes"
    elif "expected a single document" in str(error):
        hint = "one file describes one application; remove the '---'"
    return YamlError(problem, None if mark is None else mark.line + 1, hint)


def problems(errors: Sequence[ErrorDetails], document: Document) -> list[tuple[int, str]]:
    """Line and sentence for each error, in the order of the file. Behind the first ``MAX_PROBLEMS`` only their number: a sentence costs much more than
    an error.
    """
    # A list whose entries are wrong is not also too short.
    has_short = any(error["type"] == "too_short" for error in errors)
    around = {error["loc"][:depth] for error in errors for depth in range(len(error["loc"]))} if has_short else set()
    kept = [error for error in errors if error["type"] != "too_short" or error["loc"] not in around]
    in_order = sorted(((document.line(error["loc"]), error) for error in kept), key=lambda found: found[0])
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
    if error["type"] in _LISTS:
        # Pydantic has Python's words for what YAML calls a list and a mapping.
        reason = "should be a list, such as [orders]"
    elif error["type"] in _MAPPINGS:
        reason = "should have keys below it, each on a line with its value"
    elif error["type"] == "too_short":
        reason = "should have an entry"
    elif error["type"] == "string_type":
        reason = "should be text; a number or a word such as yes, no, on, off, true, false or null needs quotes to be text"
    return f"{place}: {reason}" if place else reason


def _suggestion(location: tuple[int | str, ...]) -> str:
    *parents, key = location
    here = _fields(_model_at(parents))
    if tuple(str(key).split(".")) in {path[len(parents) :] for path in _every_path() if path[: len(parents)] == tuple(parents)}:
        nested = str(key).replace(".", ": {") + ": ..." + "}" * str(key).count(".")
        return f"; each dot is a level: write {nested}, in the section that is there already if there is one"
    near = difflib.get_close_matches(str(key)[:_MOST_OF_A_KEY], here, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}? If not, leave it out"
    elsewhere = next((path for path in _every_path() if path[-1] == key), None)
    if elsewhere:
        return f"; it belongs to {'.'.join(elsewhere[:-1]) or 'the top level'}"
    return f"; leave it out, or write one of {', '.join(here)}"


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
    if isinstance(annotation, type) and is_dataclass(annotation):
        return section_of(cast("Any", annotation))
    return next((model for part in typing.get_args(annotation) if (model := _model_in(part))), None)


@cache
def _every_path() -> tuple[tuple[str, ...], ...]:
    return tuple(_all_paths(ApplicationConfig))


def _all_paths(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, one in model.model_fields.items():
        yield (*above, name)
        inner = _model_in(one.annotation)
        if inner:
            yield from _all_paths(inner, (*above, name))
