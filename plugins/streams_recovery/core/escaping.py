"""Text from elsewhere, made fit for where it is shown: ids of groups, names of topics, metadata, reasons, answers of an application, errors of peers.

Each medium has one mechanism. A terminal gets ``visible`` text, and so does a log that is written to through ``logger``. Markdown is made by ``md``
alone: its type says that what it holds is escaped, and whatever shows Markdown takes nothing else. The templates of the page escape HTML, and make text
visible too.
"""

from __future__ import annotations

import logging
import re
import string
from collections.abc import Iterable
from typing import Any, Final

from streams_recovery.core.masking import masked

# What Markdown reads wherever it stands in a line. An underscore within a word means nothing, and neither does most of the rest of ASCII.
_MARKS: Final = re.compile(r"(?<!\S)#|[\\`*\[\]<>|~&]|(?<![^\W_])_|_(?![^\W_])")
# What pages make a link of although nothing marks it as one. They look for it in text behind all escapes, so only a code span in its middle keeps it text.
_LINKS: Final = re.compile(r"((?<=http)|(?<=https)|(?<=ftp))://|(?<=www)\.", re.IGNORECASE)
# What it reads at the beginning of a line alone.
_FIRST: Final = re.compile(r"\d{1,9}(?=[.)])|(?=[-+=#:])")
# What a code span shows as it is, in a table too.
_CODE: Final = re.compile(r"[^`|\\\n]+")
_FIELDS: Final = string.Formatter()
_DELETE, _LAST_SHORT = 0x7F, 0xFFFF


class Markdown(str):
    """Markdown in which everything that did not come from a template of this software is escaped. Only this module makes one."""

    __slots__ = ()


_LINE: Final = Markdown("\n")


def visible(text: str) -> str:
    """The text on one line, without a character that controls where or how something is shown: line breaks, escape sequences, direction of writing,
    characters without a width. Each of those is written as Python writes it.
    """
    return text if text.isprintable() else "".join(one if one.isprintable() else _written(one) for one in text)


def visible_lines(text: str) -> str:
    """Like ``visible``, for a text whose line breaks are ours."""
    return "\n".join(map(visible, text.split("\n")))


class _Visible(logging.Filter):
    """Makes each message of a logger one visible line, without a secret that is known. A traceback stays as it is: it is made later."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = visible(masked(record.getMessage())), ()
        return True


_VISIBLE: Final = _Visible()


def logger(name: str) -> logging.Logger:
    """The logger of this name, whose messages are visible text. No other is used."""
    found = logging.getLogger(name)
    found.addFilter(_VISIBLE)
    return found


def md(template: str, *values: object, **named: object) -> Markdown:
    """Markdown from a template of ours, as ``str.format`` fills it. Values are shown literally, on one line; only ``Markdown`` stays as it is."""
    numbers = iter(range(len(values)))
    parts: list[str] = []
    for literal, name, form, _ in _FIELDS.parse(template):
        parts.append(literal)
        if name is None:
            continue
        value = values[next(numbers)] if name == "" else _FIELDS.get_field(name, values, named)[0]
        begins = not "".join(parts).rpartition("\n")[2].strip(" >")
        parts.append(_literal(value, form or "", begins=begins))
    return Markdown("".join(parts))


def code(text: object) -> Markdown:
    """The text as code. A text that a code span cannot show is escaped without one."""
    shown = visible(str(text))
    fits = _CODE.fullmatch(shown) is not None and shown == shown.strip()
    return Markdown(f"`{shown}`") if fits else _escaped(shown)


def joined(parts: Iterable[Markdown], separator: Markdown = _LINE) -> Markdown:
    """All of them, each on its line, or with another separator."""
    return Markdown(separator.join(parts))


def _literal(value: Any, form: str, *, begins: bool) -> str:
    if isinstance(value, Markdown):
        return value
    shown = _escaped(visible(format(value, form)))
    if not begins:
        return shown
    text = shown.lstrip(" ")
    first = _FIRST.match(text)
    return text if first is None else f"{first[0]}\\{text[first.end() :]}"


def _escaped(shown: str) -> Markdown:
    return Markdown(_LINKS.sub(r"`\g<0>`", _MARKS.sub(r"\\\g<0>", shown)))


def _written(one: str) -> str:
    # As JSON has it from DEL on, so that a line of JSON stays one.
    number = ord(one)
    return f"\\u{number:04x}" if _DELETE <= number <= _LAST_SHORT else one.encode("unicode_escape").decode("ascii")


def warned(warnings: Iterable[str]) -> list[Markdown]:
    """Each warning, and an empty line behind them."""
    shown = [md("> **Warning:** {}", warning) for warning in warnings]
    return [*shown, md("")] if shown else []
