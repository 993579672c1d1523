"""YAML as plain data with line numbers, for files that people write by hand.

Only mappings, lists and scalars: no tags, no anchors or aliases (a few lines of them can grow to gigabytes), no duplicate keys, one document.
Variables are replaced in values, never in keys, after parsing, so what they contain cannot change the structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer

from streams_recovery.config.variables import VariableError, expand

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_NODES = 10_000

Path = tuple[str | int, ...]

_PLAIN_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT = (_PLAIN_TAG + kind for kind in ("null", "bool", "int", "float"))


class YamlError(ValueError):
    """Raised when the text is not the YAML we accept. ``line`` counts from one; None when no line can be named."""

    def __init__(self, reason: str, line: int | None, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.line, self.hint = reason, line, hint


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says, and the line of every key and list item in it."""

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
    # YAML 1.1 reads 017 as octal and 1:30 as sixty-based; nobody who writes a configuration means that.
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
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
