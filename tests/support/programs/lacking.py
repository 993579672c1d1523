"""Programs that some machines lack: what needs one is skipped there, and says what it did not check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded import foreign


@contextmanager
def or_skipped() -> Iterator[None]:
    """Skips what is done in the block where a program is missing for it."""
    try:
        yield
    except foreign.NotInstalled as missing:
        pytest.skip(f"NOT checked: {missing}")


def go_program(name: str, package: str, version: str) -> Path:
    """See ``foreign.go_program``."""
    with or_skipped():
        return foreign.go_program(name, package, version)
