"""Words of a command line that look like secrets: the draft has a variable in the place of each, because a configuration file holds none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_KIND: Final = r"(?:pass(?:word|wd|phrase)|secret|token|credential|(?:api|access|private|account|sas)[-_.]?key)s?"
# What is called like a secret has the whole rest of the word: --sasl.password=x, -Djavax.net.ssl.keyStorePassword=x, DB_PASSWORD=x.
_NAMED: Final = re.compile(rf"[\w.-]*{_KIND}[=:](?P<secret>.+)", re.IGNORECASE | re.DOTALL)
_OPTION: Final = re.compile(rf"--?[\w.-]*{_KIND}", re.IGNORECASE)
# Within a longer text, such as sasl.jaas.config or JSON, and in an address.
_WITHIN: Final = re.compile(
    rf"""{_KIND}["']?\s*[=:]\s*(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<bare>[^"'\s;,&}}]+))|://[^\s/@:]*:(?P<user>[^\s/@]+)@""",
    re.IGNORECASE,
)
# Such as --max-tokens=100 and --api-key=none.
_OPEN: Final = re.compile(r"\d{1,7}|true|false|none|null", re.IGNORECASE)


class Template(str):
    """A text of a configuration in which ``${NAME}`` is a variable, and what is meant as it stands is escaped."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SecretWords:
    """Puts variables in the place of secrets. Their names begin with that of a configuration; ``variables`` are the secrets by their names, one for each."""

    configuration: str
    variables: dict[str, str] = field(default_factory=dict, repr=False)

    def without(self, value: Any) -> Any:
        """A value of a configuration without secrets. Only lists of words and values that are called like a secret are looked at."""
        if isinstance(value, dict):
            return {key: self._named(key, one) if isinstance(one, str) else self.without(one) for key, one in value.items()}
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            return [self._template(word, places) for word, places in zip(value, _places(value), strict=True)]
        return [self.without(one) for one in value] if isinstance(value, list) else value

    def _named(self, key: str, text: str) -> str:
        return self._template(text, [(0, len(text))]) if text and _NAMED.fullmatch(f"{key}={text}") else text

    def _template(self, word: str, places: Sequence[tuple[int, int]]) -> str:
        if not places:
            return word
        parts, done = [], 0
        for begin, end in places:
            parts += [_literal(word[done:begin]), f"${{{self._variable(word[begin:end])}}}"]
            done = end
        return Template("".join(parts) + _literal(word[done:]))

    def _variable(self, secret: str) -> str:
        found = next((name for name, known in self.variables.items() if known == secret), None)
        if found is None:
            stem = re.sub(r"\W", "_", self.configuration, flags=re.ASCII).upper()
            stem = f"{'_' if stem[:1].isdigit() else ''}{stem}_SECRET"
            found = f"{stem}_{len(self.variables) + 1}" if self.variables else stem
            self.variables[found] = secret
        return found


def masked_words(words: Sequence[str]) -> list[str]:
    """Words of a command line to show, with ``***`` for secrets."""
    found = []
    for word, places in zip(words, _places(words), strict=True):
        shown = word
        for begin, end in reversed(places):
            shown = f"{shown[:begin]}***{shown[end:]}"
        found.append(shown)
    return found


def _places(words: Sequence[str]) -> Iterator[list[tuple[int, int]]]:
    """Where secrets are in each word, from left to right."""
    for before, word in zip(("", *words), words, strict=False):
        if _OPTION.fullmatch(before) and word and not word.startswith("-"):
            found = [(0, len(word))]
        elif named := _NAMED.fullmatch(word):
            found = [named.span("secret")]
        else:
            found = [one.span(one.lastgroup or 0) for one in _WITHIN.finditer(word)]
        yield [(begin, end) for begin, end in found if not _OPEN.fullmatch(word[begin:end])]


def _literal(text: str) -> str:
    return text.replace("${", "$${")
