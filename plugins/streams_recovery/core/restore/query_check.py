"""Compares a running application's answers to queries with the restored state, for the keys that are readable. Keys are asked one by one, or the store as
a whole where an application has no such route.

A savepoint contains bytes of the application's own serialisers, while an answer is JSON. They can be compared if the bytes are text or JSON. Other
keys prove nothing and are counted separately. An answer without any key needs no comparison: a store that should have keys is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams_recovery.core.answers import is_answer, readable_text

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCheck:
    """The result for one store. Of the keys ``sampled`` from the savepoint, ``equal`` have the application's answer (a deleted one has none), ``changed``
    were written again since the restore, and ``unreadable`` cannot be compared. ``different`` names keys with a different answer or none (at most 20; binary
    keys in hex). With no key ``sampled`` the store was not asked.
    """

    store: str
    sampled: int
    equal: int
    changed: int
    unreadable: int
    different: tuple[str, ...]


def chosen(newest: Mapping[bytes, bytes | None], most: int) -> dict[bytes, bytes | None]:
    """Up to ``most`` of the newest keys of one partition, in the order of their records. Keys with a value go before deleted ones: an empty store also lacks
    those.
    """
    order = [*newest][::-1]
    live = [key for key in order if newest[key] is not None]
    deleted = [key for key in order if newest[key] is None]
    picked = set((*live, *deleted)[:most])
    return {key: value for key, value in newest.items() if key in picked}


def judge_keys(
    store: str, sample: Mapping[bytes, bytes | None], verdicts: Mapping[bytes, bool | None], changed: Collection[bytes]
) -> QueryCheck:
    """Count ``sample``, except for keys that have ``changed``, by whether the answer to each key is its value. None, or no verdict: that cannot be told. Nor
    can it of deleted keys that are not there, unless some key is: an empty store lacks them too.
    """
    still = [key for key in sample if key not in changed]
    different = [readable_text(key) or f"0x{key.hex()}" for key in still if verdicts.get(key) is False]
    same = [key for key in still if verdicts.get(key) is True]
    proves = any(sample[key] is not None for key in same)
    return _result(store, sample, still, equal=len(same) if proves else 0, different=different)


def judge(store: str, sample: Mapping[bytes, bytes], answers: Mapping[str, object], changed: Collection[bytes]) -> QueryCheck:
    """Compare ``sample`` (newest value by key) with the answers, except for keys that have ``changed``.

    If there are answers but no key is among them, the application shows its keys in another form. That is not a difference. If there are none at all,
    every key is missing, in whatever form.
    """
    still = {key: value for key, value in sample.items() if key not in changed}
    if not answers:
        return _result(store, sample, still, equal=0, different=[readable_text(key) or f"0x{key.hex()}" for key in still])
    named = {key: name for key in still if (name := readable_text(key)) is not None}
    comparable = any(name in answers for name in named.values())
    equal, different = 0, []
    for key, name in named.items() if comparable else ():
        same = is_answer(still[key], answers[name]) if name in answers else False
        equal += same is True
        different += [name] if same is False else []
    return _result(store, sample, still, equal=equal, different=different)


def _result(store: str, sample: Mapping[bytes, bytes | None], still: Collection[bytes], *, equal: int, different: list[str]) -> QueryCheck:
    return QueryCheck(
        store=store,
        sampled=len(sample),
        equal=equal,
        changed=len(sample) - len(still),
        unreadable=len(still) - equal - len(different),
        different=tuple(different[:_SHOWN]),
    )
