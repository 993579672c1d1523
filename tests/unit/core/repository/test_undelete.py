"""Which versions come back, over all histories of an object."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.undelete import Harm, ObjectVersion, to_undelete

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
