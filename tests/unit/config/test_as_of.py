"""A run's word on the moment goes before the configuration's, and without either there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.as_of import as_of
from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.restore.point_in_time import AsOf
from tests.support.examples.configurations import MINIMAL


def configured(directory: Path, moment: str) -> ApplicationConfig:
    (directory / "orders.yaml").write_text(f"{MINIMAL}restore:\n  time_window_end: {moment}\n")
    return load(directory / "orders.yaml", {})


@pytest.mark.parametrize(
    ("moment", "asked", "found"),
    [
        ("2026-11-21T13:00:00.0015+01:00", "", 1_795_262_400_001),
        ("2026-11-21T12:00:00Z", "  ", 1_795_262_400_000),
        ("2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z", 1_795_262_401_000),
        ("null", "2026-11-21T12:00:01Z", 1_795_262_401_000),
    ],
)
def test_what_a_run_asks_for_goes_first(tmp_path: Path, moment: str, asked: str, found: int) -> None:
    assert as_of(configured(tmp_path, moment), asked, "position") == AsOf(moment=found, by=CutBy.POSITION)


def test_without_a_moment_there_is_nothing_to_restore_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no moment is given"):
        as_of(configured(tmp_path, "null"), "", "timestamp")
