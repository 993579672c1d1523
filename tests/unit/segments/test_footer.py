"""What a footer may claim is read as it is, or refused; never anything else."""

from __future__ import annotations

import pytest

from streams_recovery.segments.footer import _chunk
from streams_recovery.segments.thrift import NotThrift


@pytest.mark.parametrize("encodings", [[[0]], [{1: 0}], [b"0"], [99], 0, None])
def test_encodings_that_are_no_known_numbers_are_refused(encodings: object) -> None:
    column = {1: 6, 2: encodings, 3: [b"key"], 4: 6, 5: 1, 6: 1, 7: 1, 9: 4}
    with pytest.raises(NotThrift, match="not as this software writes it"):
        _chunk({3: column})  # type: ignore[dict-item]


def test_and_those_that_are_known_are_taken() -> None:
    name, chunk = _chunk({3: {1: 6, 2: [0, 3], 3: [b"key"], 4: 6, 5: 1, 6: 2, 7: 3, 9: 4}})
    assert (name, chunk.values, chunk.unpacked, chunk.packed, chunk.start) == ("key", 1, 2, 3, 4)
