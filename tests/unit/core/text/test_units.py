from __future__ import annotations

import pytest

from streams_recovery.core.text.units import age_text, bytes_text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_200, "1.2 KB"), (38_000_000_000, "38 GB"), (1.5e12, "1.5 TB"), (4e18, "4000 PB")]
)
def test_bytes(size: float, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (720, "12 min"), (10_800, "3 h"), (86_400, "24 h"), (200_000, "2 days")]
)
def test_ages(seconds: float, text: str) -> None:
    assert age_text(seconds) == text
