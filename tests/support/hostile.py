"""Text as somebody would write it who wants to hide what comes after it, or to make it look like something else."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles

# A consumer group's id may hold all of it, and Kafka takes it.
HOSTILE: Final = "g\n\n<!-- \x1b[2J\x1b]0;t\x07 | `a` **b** _c_ [d](http://e) &amp; \u202e# \r\n```\n~~~\n- 1. <script>alert(1)</script> \x9b0m \u2028 end"
_PIECES: Final = [
    "\n",
    "\n\n",
    "\x1b[31m",
    "<!--",
    "-->",
    "<b>",
    "```",
    "~~~",
    "|",
    "\\",
    "`",
    "**",
    "__",
    "_",
    "[x](y)",
    "![x](y)",
    "&lt;",
    "&#35;",
]
_STARTS: Final = [
    "# ",
    "- ",
    "+ ",
    "1. ",
    "1) ",
    "> ",
    "---",
    "===",
    "***",
    "    ",
    "\t",
    ":--",
    "[a]: b",
    "\u202e",
    "\u2028",
    "\x9b",
    "\x00",
]
TEXTS: Final = st.lists(st.sampled_from([*_PIECES, *_STARTS, "a", "z9", " ", "é", "HTTP", "."]) | st.text(max_size=3), max_size=8).map(
    "".join
)
_OURS: Final = frozenset({"kind", "format_version", "verdict"})
_RENDERER: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def markdown_text(page: str) -> list[str]:
    """What Airflow shows of a page in Markdown: a text for each block and each cell, with white space as a browser has it. HTML is left out, as there."""
    blocks = [token for token in _RENDERER.parse(page) if token.type in ("inline", "code_block", "fence")]
    return [browser_text(_shown(token)) for token in blocks]


def spoiled(value: Any, by: str) -> Any:
    """The same value with ``by`` behind each text in it that is free: no word of ours, no hash, no key of a file."""
    if type(value) is str:
        return value + by
    if isinstance(value, SegmentFiles):
        return value
    if isinstance(value, TopicPartition):
        return TopicPartition(value.topic + by, value.partition)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{one.name: spoiled(getattr(value, one.name), by) for one in fields(value) if one.init and one.name not in _OURS}
        )
    if isinstance(value, dict):
        return {spoiled(key, by): spoiled(one, by) for key, one in value.items()}
    return type(value)(spoiled(one, by) for one in value) if isinstance(value, (tuple, list)) else value


def browser_text(text: str) -> str:
    """Several spaces are one."""
    return " ".join(text.split())


def _shown(block: Token) -> str:
    if block.children is None:
        return block.content
    return "".join(" " if one.type.endswith("break") else one.content for one in block.children if one.type != "html_inline")
