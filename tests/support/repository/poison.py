"""Manifests that somebody hostile may publish as the newest one. Each is refused by another check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import zstandard

NEWER: Final = "20261121T235959Z-0000000009"
LAST_SECOND: Final = "99991231T235959Z-0000000009"
NO_TIME: Final = "20269999T999999Z-0000000009"


def _packed(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(plain)


def _edited(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def make(honest: bytes) -> bytes:
        plain = json.loads(zstandard.ZstdDecompressor().decompress(honest))
        plain["savepoint_id"] = NEWER
        change(plain)
        return _packed(json.dumps(plain).encode())

    return make


# What to store for each, made of an honest manifest of the same application.
POISONS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "nothing": lambda _: b"",
    "no zstd": lambda _: b"x" * 100,
    "a bomb of lists": lambda _: _packed(b"[" + b"[]," * 5_000_000 + b"[]]"),
    "a deep text": lambda _: _packed(b'{"topics":' * 200_000),
    "a list for a word": _edited(lambda plain: plain.update(consistency=["exact"])),
    "an object for a role": _edited(lambda plain: plain["topics"][0].update(role={"changelog": 1})),
    "a moment that no calendar has": _edited(lambda plain: plain.update(captured_at=2**62)),
    "half a character": _edited(lambda plain: plain["provenance"].update(reason="\ud800")),
    "a number of 200 bits": _edited(lambda plain: plain.update(captured_at=2**200)),
    "another one's": lambda honest: honest,
}


def poison(savepoints: Path, name: str, savepoint_id: str = NEWER) -> Path:
    """Store it below the directory of an application's savepoints, of which one is honest."""
    honest = min(savepoints.glob("*/manifest.json.zst")).read_bytes()
    path = savepoints / savepoint_id / "manifest.json.zst"
    path.parent.mkdir()
    path.write_bytes(POISONS[name](honest))
    return path
