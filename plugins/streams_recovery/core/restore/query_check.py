"""Compares a running application's answers to queries with the restored state, for the keys that are readable.

A savepoint contains bytes of the application's own serialisers, while an answer is JSON. They can be compared if the bytes are text or JSON. Other
keys prove nothing and are counted separately. An answer without any key needs no comparison: a store that should have keys is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams_recovery.core.bounded_json import document

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCheck:
    """The result for one store. Of the keys ``sampled`` from the savepoint, ``equal`` have the application's answer, ``changed`` were written again
    since the restore, and ``unreadable`` cannot be compared. ``different`` names keys with a different answer or none (at most 20; binary keys in hex).
    """

    store: str
    sampled: int
    equal: int
    changed: int
    unreadable: int
    different: tuple[str, ...]


def judge(store: str, sample: Mapping[bytes, bytes], answers: Mapping[str, object], changed: Collection[bytes]) -> QueryCheck:
    """Compare ``sample`` (newest value by key) with the answers, except for keys that have ``changed``.

    If there are answers but no key is among them, the application shows its keys in another form. That is not a difference. If there are none at all,
    every key is missing, in whatever form.
    """
    still = {key: value for key, value in sample.items() if key not in changed}
    if not answers:
        return _result(store, sample, still, equal=0, different=[_text(key) or f"0x{key.hex()}" for key in still])
    named = {key: name for key in still if (name := _text(key)) is not None}
    comparable = any(name in answers for name in named.values())
    equal, different = 0, []
    for key, name in named.items() if comparable else ():
        same = is_answer(still[key], answers[name]) if name in answers else False
        equal += same is True
        different += [name] if same is False else []
    return _result(store, sample, still, equal=equal, different=different)


def _result(store: str, sample: Mapping[bytes, bytes], still: Collection[bytes], *, equal: int, different: list[str]) -> QueryCheck:
    return QueryCheck(
        store=store,
        sampled=len(sample),
        equal=equal,
        changed=len(sample) - len(still),
        unreadable=len(still) - equal - len(different),
        different=tuple(different[:_SHOWN]),
    )


def is_answer(value: bytes, answer: object) -> bool | None:
    """Whether ``answer`` is this value, as text or as JSON. None if the bytes are neither."""
    text = _text(value)
    if text is None:
        return None
    if text == answer:
        return True
    try:
        return bool(document(text) == answer)
    except ValueError:
        # Text that is not JSON was shown as text, or by an unknown serialiser.
        return False if isinstance(answer, str) else None


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # Binary numbers may also be valid UTF-8, but of unprintable characters.
    return text if text and all(c.isprintable() or c in "\n\r\t" for c in text) else None
