"""What logs hold: all records, the newest one of each key, and where it counts the order of each key's, as a digest that no order of partitions changes.
Without Spark, and column by column.

Two times 64 bits a record: the products of NH, as UMAC has it, with keys that are always the same. So it finds what a mistake changes. It is no secret, and
nobody who chose the bytes could be held to it: the hashes of files are there for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.transforms.rescale_rows import Numbers, bytes_of
from streams_recovery.kafka.native.library import row_hashes

Hashes = npt.NDArray[np.uint64]
"""Two numbers of 64 bits for each row."""

_LONG: Final = 1_024
# A few short lengths, so that one long row does not make all of them long.
_LENGTHS: Final = (32, 128, _LONG)
# As many rows as a near cache holds.
_AT_ONCE: Final = 8_000
_KEYS: Final = np.frombuffer(hashlib.shake_256(b"NH").digest(4 * _LONG), "<u4").astype(np.uint64).reshape(2, 2, -1)
# The bytes of a row of each length that are its own.
_OWN: Final = (np.arange(_LONG) < np.arange(_LONG + 1)[:, None]).astype(np.uint8) * np.uint8(255)
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_ODD: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
# Keys in memory at once: 32 bytes each, and as much again to sort them.
_IN_MEMORY: Final = 2_000_000
# Pieces of ``_AT_ONCE`` rows that go into files together.
_PIECES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHeld:
    """What some logs of one topic hold. ``sums`` are those of digests, in 64 bits: two over all records, two over the newest record of each key, two over
    each two records of a key that follow one another.
    """

    keys: int
    rows: int
    sums: tuple[int, ...]

    def __add__(self, other: LogHeld) -> LogHeld:
        """Both. No key is in two logs."""
        sums = tuple(map(int, np.array(self.sums, np.int64) + np.array(other.sums, np.int64)))
        return LogHeld(keys=self.keys + other.keys, rows=self.rows + other.rows, sums=sums)

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr((self.keys, self.rows, self.sums)).encode()).hexdigest()


NOTHING: Final = LogHeld(keys=0, rows=0, sums=(0, 0, 0, 0, 0, 0))


class LogDigest:
    """The digest of one log, or of several that have no key in common, as their rows pass in the order of offsets. ``rows`` is how many there may be: of more
    than memory should hold the keys wait in files in ``directory``, a part of them in each. With ``versions`` each moment of a key is a key of its own. With
    ``ordered`` the order of a key's records counts: of state its newest one is all.
    """

    def __init__(self, directory: Path, rows: int, *, versions: bool = False, ordered: bool = False) -> None:
        self._versions, self._ordered, self._rows = versions, ordered, 0
        self._all, self._order = np.zeros(2, np.uint64), np.zeros(2, np.uint64)
        self._waiting: list[npt.NDArray[np.uint64]] = []
        self._files = [directory / f"{number}.keys" for number in range(-(-rows // _IN_MEMORY))] if rows > _IN_MEMORY else []

    def add(self, batch: pa.RecordBatch, values: pa.Array) -> None:
        """Rows, with these ``values`` in place of their own."""
        for at in range(0, len(batch), _AT_ONCE):
            self._add(batch.slice(at, _AT_ONCE), values.slice(at, _AT_ONCE))

    def _add(self, batch: pa.RecordBatch, values: pa.Array) -> None:
        moments = batch.column("timestamp").to_numpy().astype(np.uint64)[:, None]
        keys = hashes(batch.column("key"))
        rows = _both(_both(_both(moments, keys), hashes(values)), _headers(batch.column("headers")))
        self._rows += len(batch)
        self._all += rows.sum(axis=0)
        found = np.column_stack((_both(moments, keys) if self._versions else keys, rows))
        self._waiting.append(found[batch.column("key").is_valid().to_numpy(zero_copy_only=False)])
        if self._files and len(self._waiting) >= _PIECES:
            self._to_files()

    def _to_files(self) -> None:
        found = np.concatenate(self._waiting) if self._waiting else np.empty((0, 4), np.uint64)
        self._waiting = []
        # All rows of a key are in one file: of one that comes again and again it would be larger than memory.
        order, ends = _by_key(found[:, 0], found[:, 1])
        if self._ordered:
            self._follow(found[order], ~ends[:-1])
            # The first one and the last one, which may be the same: what comes before and behind follows these.
            order = np.column_stack((order[np.append(True, ends[:-1])], order[ends])).ravel() if len(order) else order
        else:
            order = order[ends]
        found = found[order]
        parts = found[:, 1] % np.uint64(len(self._files))
        for number, file in enumerate(self._files):
            with file.open("ab") as handle:
                handle.write(found[parts == number].tobytes())

    def held(self) -> LogHeld:
        """What they hold by now."""
        keys, newest = 0, np.zeros(2, np.uint64)
        for found in self._parts():
            order, ends = _by_key(found[:, 0], found[:, 1])
            last = found[order[ends]]
            keys += len(last)
            newest += last[:, 2:].sum(axis=0)
            if self._ordered:
                # In files they come by twos, whose first and last are no neighbours.
                self._follow(found[order], ~ends[:-1] & ((np.arange(len(order) - 1) % 2 == 1) if self._files else True))
        sums = np.concatenate((self._all, newest, self._order))
        return LogHeld(keys=keys, rows=self._rows, sums=tuple(map(int, sums.view(np.int64))))

    def _follow(self, sorted_rows: npt.NDArray[np.uint64], neighbours: npt.NDArray[np.bool_]) -> None:
        at = np.flatnonzero(neighbours)
        self._order += _both(sorted_rows[at, 2:], sorted_rows[at + 1, 2:]).sum(axis=0)

    def _parts(self) -> Iterator[npt.NDArray[np.uint64]]:
        if self._files:
            self._to_files()
        for file in self._files:
            yield np.fromfile(file, np.uint64).reshape(-1, 4) if file.exists() else np.empty((0, 4), np.uint64)
        if self._waiting:
            yield np.concatenate(self._waiting)


def _by_key(one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The rows key by key, each of which is told by two numbers, and which of them are the last of their key. Rows of a key stay in their order."""
    if not len(one):
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    # A plain sort is ten times as fast as one of rows by two numbers: of the higher bits of a key, with the number of the row in the lower ones.
    below = np.uint64((1 << len(one).bit_length()) - 1)
    packed = np.sort(one & ~below | np.arange(len(one), dtype=np.uint64))
    order, high = (packed & below).astype(np.int64), packed & ~below
    changes = (one[order[1:]] != one[order[:-1]]) | (other[order[1:]] != other[order[:-1]])
    if (changes & (high[1:] == high[:-1])).any():
        order = np.lexsort((other, one))
        changes = (one[order[1:]] != one[order[:-1]]) | (other[order[1:]] != other[order[:-1]])
    return order, np.append(changes, True)


def hashes(column: pa.Array) -> Hashes:
    """Of each row of bytes. Null is not empty."""
    data, starts, lengths = bytes_of(column)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    lengths, found = np.where(valid, lengths, 0), np.zeros((len(column), 2), np.uint64)
    if (compiled := row_hashes()) is not None:
        compiled.nh(data, starts, np.where(lengths <= _LONG, lengths, 0), _KEYS, found)
    else:
        padded = np.append(data, np.zeros(_LONG, np.uint8))
        for above, most in zip((0, *_LENGTHS), _LENGTHS, strict=False):
            rows = np.flatnonzero((lengths > above) & (lengths <= most))
            if len(rows):
                found[rows] = _nh(padded, starts[rows], lengths[rows])
    for row in np.flatnonzero(lengths > _LONG):
        whole = hashlib.blake2b(data[starts[row] : starts[row] + lengths[row]].tobytes(), digest_size=16).digest()
        found[row] = np.frombuffer(whole, "<u8")
    return _both(found, np.where(valid, lengths, -1).astype(np.uint64)[:, None])


def _nh(data: npt.NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> Hashes:
    words = -(-int(lengths.max()) // 8)
    # Each place where a row may begin, with the words from there on.
    places = np.ndarray((len(data) - 8 * words + 1, words), "<u8", data, 0, (1, 8))
    found = places[starts] & _OWN.view("<u8")[lengths, :words]
    low, high = found & _LOW, found >> _HALF
    several: Hashes = np.stack([np.einsum("ij,ij->i", low + first[:words], high + second[:words]) for first, second in _KEYS], axis=1)
    # Without what nothing gives, so that no longer row beside it changes the hash of one.
    of_nothing: Hashes = (_KEYS[:, 0, :words] * _KEYS[:, 1, :words]).sum(axis=1)
    return several - of_nothing


def _headers(column: pa.Array) -> Hashes:
    """Of the headers of each row, in their order."""
    found = np.zeros((len(column), 2), np.uint64)
    if column.null_count == len(column):
        return found
    flat, rows = column.flatten(), pc.list_parent_indices(column).to_numpy()
    number = (np.arange(len(rows)) - np.searchsorted(rows, rows)).astype(np.uint64)[:, None]
    np.add.at(found, rows, _both(_both(number, hashes(flat.field("key").cast(pa.binary()))), hashes(flat.field("value"))))
    return found


def _both(one: Hashes, other: Hashes) -> Hashes:
    """A hash of two."""
    if (compiled := row_hashes()) is not None:
        done = np.empty((len(one), 2), np.uint64)
        compiled.both(np.ascontiguousarray(one), np.ascontiguousarray(other), _ODD, done)
        return done
    found = (one + _ODD) * _ODD[::-1] ^ other
    for shift in (32, 29):
        found ^= found >> np.uint64(shift)
        found *= _ODD
    return found ^ found >> _HALF
