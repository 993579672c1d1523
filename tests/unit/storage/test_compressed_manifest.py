"""Nothing that calls itself a manifest is unpacked, or understood, without a limit."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.storage import json_object, objects, savepoints
from streams_recovery.storage.objects import most_unpacked, unpacked
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.repository.stored import store_in

ID = "20261121T012345Z-0123456789"
MIB = 1 << 20


def store_with(directory: Path, stored: bytes) -> SavepointStore:
    """A repository whose only savepoint is this."""
    repository = Repository(StorageLocation(backend="filesystem", path=str(directory)))
    repository.create(Layout("orders").manifest(ID), stored)
    return SavepointStore(repository, Layout("orders"))


def refusal(directory: Path, stored: bytes) -> str:
    """What reading ``stored`` as a manifest ends with."""
    with pytest.raises(Damaged) as caught:
        store_with(directory, stored).read(ID)
    assert Layout("orders").manifest(ID) in str(caught.value)
    return str(caught.value)


def claiming(size: int) -> bytes:
    """The beginning of a frame that says how many bytes it holds, and holds none."""
    packer = zstandard.ZstdCompressor().compressobj(size=size)
    return packer.compress(b" ") + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


@pytest.mark.fault("F63")
def test_a_size_that_is_not_likely_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    most = most_unpacked(len(claiming(2 * MIB)))
    assert f"it would unpack to {most + 1} bytes" in refusal(tmp_path / "above", claiming(most + 1))
    assert "would unpack" not in refusal(tmp_path / "at", claiming(most)), "it is refused for what it lacks, not for its size"


@pytest.mark.fault("F63")
def test_a_frame_that_does_not_tell_its_size_is_refused(tmp_path: Path) -> None:
    whole = codec.dumps(manifest_with())
    assert "does not say how many bytes" in refusal(tmp_path, zstandard.ZstdCompressor(write_content_size=False).compress(whole))


@pytest.mark.fault("F63")
def test_what_follows_the_frame_is_refused(tmp_path: Path) -> None:
    assert "not a compressed manifest" in refusal(tmp_path, objects.packed(codec.dumps(manifest_with())) + objects.packed(b"{}"))


BOMBS: dict[str, Callable[[], bytes]] = {
    "lists": lambda: b"[" + b"[]," * 25_000_000 + b"[]]",
    "lists in a key": lambda: b'{"format_version":2,"topics":[' + b"[]," * 25_000_000 + b"[]]}",
    "spaces": lambda: b" " * (64 * MIB),
    "deep": lambda: b'{"topics":' * 200_000,
    "a long number": lambda: b'{"captured_at":' + b"1" * 4_000_000 + b"}",
    "a long text": lambda: b'{"cluster_id":"' + b"x" * (64 * MIB) + b'"}',
}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("bomb", list(BOMBS))
def test_a_few_kilobytes_cost_a_few_megabytes(tmp_path: Path, bomb: str) -> None:
    stored = zstandard.ZstdCompressor(level=19).compress(BOMBS[bomb]())
    assert len(stored) < 16_000
    store = store_with(tmp_path, stored)
    tracemalloc.start()
    try:
        with pytest.raises(Damaged, match=ID):
            store.read(ID)
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.fault("F63")
def test_an_honest_manifest_is_far_from_every_limit(tmp_path: Path) -> None:
    """Empty partitions shrink best, and have the most values for their length."""
    ranges = [copied(at * 10, at * 10 + 10) for at in range(50)]
    several = [replace(partition(ranges, [], end=500), partition=number) for number in range(20)]
    empty = [replace(partition([], [], end=0), partition=number, committed=None) for number in range(5_000)]
    for parts in (several, empty):
        published = replace(manifest_with(), topics=(replace(manifest_with().topics[0], partitions=tuple(parts)),))
        plain = codec.dumps(published)
        stored = objects.packed(plain)
        assert 2 * len(plain) < most_unpacked(len(stored))
        assert codec.loads(dict[str, object], unpacked(stored, "here"), where="here")


def test_what_could_not_be_read_again_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))
    monkeypatch.setattr(savepoints, "packed_value", lambda key, value: json_object.packed_value(key, value, most_bytes=500))
    with pytest.raises(Refused, match="too large") as caught:
        SavepointStore(repository, Layout("orders")).publish(manifest_with())
    assert caught.value.facts == {"key": Layout("orders").manifest(manifest_with().savepoint_id)}
    assert list(repository.keys("")) == []


def test_a_savepoint_whose_detail_cannot_be_written_is_published_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    published, store = manifest_with(), store_in(tmp_path)
    monkeypatch.setattr(savepoints, "_MOST_OF_DETAIL", 500)
    store.publish(published)
    assert store.read(published.savepoint_id) == published
    detail = Layout("orders").detail(published.savepoint_id)
    assert detail in caplog.text
    with pytest.raises(NotFound) as caught:
        store.detail(published.savepoint_id)
    assert caught.value.facts["key"] == detail


def _with(change: Callable[[dict[str, Any]], object]) -> bytes:
    honest = replace(manifest_with(), topics=(replace(manifest_with().topics[0], partitions=(partition([copied(0, 10)], [], end=10),)),))
    with tempfile.TemporaryDirectory() as directory:
        store_in(Path(directory)).publish(honest)
        plain = json.loads(unpacked((Path(directory) / Layout("orders").manifest(ID)).read_bytes(), "honest"))
    change(plain)
    return objects.packed(json.dumps(plain).encode())


def _partition(plain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plain["topics"][0]["partitions"][0]
    return found


def _facts(plain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _partition(plain)["ranges"]
    return found


def _table(plain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plain["topics"][0]["tables"][0]
    return found


ODD: dict[str, Callable[[dict[str, Any]], object]] = {
    "a moment that no calendar has": lambda plain: plain.update(captured_at=2**62),
    "a moment before 1970": lambda plain: plain.update(captured_at=-1),
    "a full copy in no year": lambda plain: plain["topics"][0].update(full_since=2**62),
    "more than 64 bits": lambda plain: _facts(plain).update(bytes=2**64),
    "more rows than offsets": lambda plain: _facts(plain).update(rows=2**40),
    "no rows": lambda plain: _facts(plain).update(rows=0),
    "fewer bytes than none": lambda plain: _facts(plain).update(bytes=-1),
    "a payload below nothing": lambda plain: _facts(plain).update(payload_a_row=-(2**62)),
    "no time of a file": lambda plain: _facts(plain).update(min_timestamp=None),
    "ranges the other way round": lambda plain: _facts(plain).update(start=10, end=0),
    "ranges that no table holds": lambda plain: _facts(plain).update(ranges=2),
    "a table without ranges": lambda plain: _table(plain).update(ranges=0),
    "a table without bytes": lambda plain: _table(plain).update(bytes=0),
    "a table larger than any": lambda plain: _table(plain).update(bytes=2**40),
    "a hash that is a way out": lambda plain: _table(plain).update(sha256="../../x"),
    "a table twice": lambda plain: plain["topics"][0].update(tables=plain["topics"][0]["tables"] * 2),
    "more ranges than a manifest may name": lambda plain: (_table(plain).update(ranges=2**23), _facts(plain).update(ranges=2**23)),
    "a chain that is not there yet": lambda plain: plain.update(previous_sha256="0" * 64),
    "a key that is not there yet": lambda plain: plain.update(encryption_key_id="k"),
    "a partition below 0": lambda plain: _partition(plain).update(partition=-1),
    "a log that starts below 0": lambda plain: _partition(plain).update(log_start=-(2**63)),
    "a committed offset below 0": lambda plain: _partition(plain)["committed"].update(offset=-2),
    "a gap the other way round": lambda plain: _partition(plain).update(gaps=[{"start": 10, "end": 9, "reason": "r"}]),
    "a list for a name": lambda plain: plain.update(consistency=["exact"]),
    "an object for a kind": lambda plain: plain["topics"][0].update(role={}),
    "a list for an object": lambda plain: plain.update(proof=[]),
    "an object for a list": lambda plain: plain.update(topics={}),
    "true for a version": lambda plain: plain.update(format_version=True),
    "half a character": lambda plain: plain["provenance"].update(reason="\ud800"),
}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("odd", list(ODD))
def test_numbers_and_containers_that_cannot_be_are_damage(tmp_path: Path, odd: str) -> None:
    assert isinstance(store_with(tmp_path / "good", _with(lambda _: None)).outline(ID), Manifest)
    refusal(tmp_path / "odd", _with(ODD[odd]))
