"""What a running application answers, compared with the state it was restored from: key by key, for the keys that can be told.

A savepoint has bytes of the application's own serialisers, an answer is JSON. Where the bytes are text, or JSON, both can be compared. What cannot be
read proves nothing and is counted apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams_recovery.core.bounded_json import document

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCheck:
    """One store. Of the keys that were ``sampled`` from the savepoint ``equal`` are what the application answers, ``changed`` were written again since
    the restore, ``unreadable`` cannot be compared; ``different`` names those whose answer is another one, or missing (at most 20).
    """

    store: str
    sampled: int
    equal: int
    changed: int
    unreadable: int
    different: tuple[str, ...]


def judge(store: str, sample: Mapping[bytes, bytes], answers: Mapping[str, object], changed: Collection[bytes]) -> QueryCheck:
    """Compare ``sample`` (newest value by key) with the answers, but for keys that have ``changed``.

    When none of the keys is among the answers, the application shows its keys in another way: that is no difference.
    """
    still = {key: value for key, value in sample.items() if key not in changed}
    named = {key: name for key in still if (name := _text(key)) is not None}
    comparable = any(name in answers for name in named.values())
    equal, different = 0, []
    for key, name in named.items() if comparable else ():
        same = is_answer(still[key], answers[name]) if name in answers else False
        equal += same is True
        different += [name] if same is False else []
    return QueryCheck(
        store=store,
        sampled=len(sample),
        equal=equal,
        changed=len(sample) - len(still),
        unreadable=len(still) - equal - len(different),
        different=tuple(different[:_SHOWN]),
    )


def is_answer(value: bytes, answer: object) -> bool | None:
    """Whether ``answer`` is this value: as text, or as JSON. None when the bytes are neither."""
    text = _text(value)
    if text is None:
        return None
    if text == answer:
        return True
    try:
        return bool(document(text) == answer)
    except ValueError:
        # Text that is no JSON was shown as text, or by a serialiser that we do not know.
        return False if isinstance(answer, str) else None


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # Numbers in binary are valid UTF-8 too, of characters that nobody writes.
    return text if text and all(c.isprintable() or c in "\n\r\t" for c in text) else None
