"""Nothing that calls itself a manifest is unpacked without a limit."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from streams_recovery.core.errors import Damaged
from streams_recovery.core.layout import Layout
from streams_recovery.core.location import StorageLocation
from streams_recovery.storage import savepoints
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

ID = "20261121T012345Z-0123456789"
LIMIT = 1 << 30


def refusal(directory: Path, packed: bytes) -> str:
    """What reading ``packed`` as a manifest ends with."""
    repository = Repository(StorageLocation(backend="filesystem", path=str(directory)))
    repository.create(Layout("orders").manifest(ID), packed)
    with pytest.raises(Damaged) as caught:
        SavepointStore(repository, Layout("orders")).read(ID)
    return str(caught.value)


def claiming(size: int) -> bytes:
    """The beginning of a frame that says how many bytes it holds, and holds none."""
    packer = zstandard.ZstdCompressor().compressobj(size=size)
    return packer.compress(b" ") + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


def without_a_size(size: int) -> bytes:
    """So many spaces, in a frame that does not say how many."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(b" " * size)


@pytest.mark.fault("F63")
def test_a_size_above_a_gibibyte_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    assert f"it would unpack to {LIMIT + 1} bytes" in refusal(tmp_path / "above", claiming(LIMIT + 1))
    assert "would unpack" not in refusal(tmp_path / "at", claiming(LIMIT)), "it is refused for what it lacks, not for its size"


@pytest.mark.fault("F63")
def test_a_frame_that_does_not_tell_its_size_is_unpacked_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoints, "_MAX_BYTES", 1_000)
    assert "is not a compressed manifest" in refusal(tmp_path / "above", without_a_size(1_001))
    assert "is not a compressed manifest" not in refusal(tmp_path / "at", without_a_size(1_000)), "unpacked, and then no JSON"
