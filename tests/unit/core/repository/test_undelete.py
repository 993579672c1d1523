"""Which versions come back, over all histories of an object."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.undelete import Harm, ObjectVersion, Undelete, began_anew, in_order, to_undelete
from tests.support.repository.every_key import every_kind

# What was done to an object, one after the other: written with this content, or deleted.
histories = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(st.sampled_from(["x", "y", None]), min_size=1, max_size=6))


def listed(history: dict[str, list[str | None]]) -> list[ObjectVersion]:
    """As a bucket lists it: newest first, markers after versions."""
    versions = [
        ObjectVersion(
            key=key,
            version_id=f"{key}{number}",
            latest=number == len(done) - 1,
            deleted=content is None,
            bytes=0 if content is None else 1,
            etag=content or "",
        )
        for key, done in history.items()
        for number, content in reversed(list(enumerate(done)))
    ]
    return sorted(versions, key=lambda version: version.deleted)


@pytest.mark.fault("F19")
@given(history=histories)
def test_what_was_written_first_comes_back_wherever_it_is_not_the_latest(history: dict[str, list[str | None]]) -> None:
    found = to_undelete(listed(history))
    brought = {one.key: one for one in found}
    assert list(brought) == sorted(brought)
    for key, done in history.items():
        written = [number for number, content in enumerate(done) if content is not None]
        now = done[-1]
        if not written or now == done[written[0]]:
            assert key not in brought, "there is nothing to bring back"
        else:
            assert brought[key].version_id == f"{key}{written[0]}"
            assert brought[key].harm is (Harm.DELETED if now is None else Harm.REPLACED)


PINS = "orders/pins"


@pytest.mark.fault("F83")
@pytest.mark.parametrize(
    ("entries", "brought", "anew"),
    [
        # Deleted whole, or with a hole in it: nothing was written since.
        ([["a", None], ["b", None]], {1, 2}, False),
        ([["a"], ["b", None], ["c"]], {2}, False),
        # Written over where it lies: the first is the true one.
        ([["a", "x"], ["b"]], {1}, False),
        # It has begun anew: older entries neither come back over newer ones nor behind them.
        ([["a", None, "x"], ["b", None], ["c", None]], set(), True),
        ([["a"], ["b", None, "x"], ["c", None]], set(), True),
        # What an undelete has brought back has not begun anew.
        ([["a", None, "a"], ["b", None]], {2}, False),
    ],
)
def test_of_a_log_that_has_begun_anew_nothing_older_comes_back(entries: list[list[str | None]], brought: set[int], anew: bool) -> None:
    log = {f"{PINS}/{number:012}.json": done for number, done in enumerate(entries, 1)}
    found = listed({**log, "orders/pins-a/000000000001.json": ["a", None], "orders/segments/s": ["s", None]})
    expected = {f"{PINS}/{number:012}.json" for number in brought} | {"orders/pins-a/000000000001.json", "orders/segments/s"}
    assert {one.key for one in to_undelete(found)} == expected
    assert began_anew(found) == ({PINS} if anew else set())


@pytest.mark.fault("F83")
def test_an_undelete_that_was_killed_goes_on_where_each_copy_has_a_tag_of_its_own() -> None:
    log = [f"{PINS}/{number:012}.json" for number in (1, 2, 3)]
    # The first one is back: with KMS its copy has another tag.
    found = [replace(one, etag=one.version_id) for one in listed({log[0]: ["x", None, "x"], log[1]: ["y", None], log[2]: ["z", None]})]
    contents = {f"{log[0]}0": "x", f"{log[0]}2": "x"}

    def same(one: ObjectVersion, other: ObjectVersion) -> bool:
        return contents[one.version_id] == contents[other.version_id]

    assert began_anew(found, same) == frozenset()
    assert {one.key for one in to_undelete(found, same)} >= {log[1], log[2]}
    contents[f"{log[0]}2"] = "new"
    assert began_anew(found, same) == {PINS}


LEFT = {"archive_locks", "locks", "holds", "quiesce_records", "artifacts", "work", "status", "alerts", "inspections", "outputs_compared"}


@pytest.mark.parametrize("layout", [Layout("orders"), Layout("orders").safety], ids=["savepoints", "safety"])
def test_every_kind_of_key_comes_back_but_those_that_say_who_is_at_work_or_are_only_the_newest(layout: Layout) -> None:
    kinds = every_kind(layout)
    assert len(kinds) > 30
    assert all(key.startswith("orders/") for key in kinds.values()), "what is listed has all of them"
    lost = [Undelete(key=key, version_id="1", bytes=1, harm=Harm.DELETED) for key in kinds.values()]
    back = in_order(Layout("orders"), lost)
    assert {name for name, key in kinds.items() if key not in {one.key for one in back}} == LEFT & {*kinds}
    exists = [
        number for number, one in enumerate(back) if one.key.startswith((Layout("orders").savepoints, Layout("orders").safety.savepoints))
    ]
    assert exists == list(range(len(back)))[-len(exists) :], "what makes a savepoint exist comes last"
