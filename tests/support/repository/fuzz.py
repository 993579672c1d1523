"""A seeded fuzzer of everything that reads what is stored: honest objects, changed a little, read until the time is over.

``python -m tests.support.repository.fuzz SEED SECONDS DIRECTORY`` prints how many were read and how many refused, and exits with 1 at the first object that
ends in anything but a value or ``Damaged``; the object stays in DIRECTORY. A process of its own, with a limit of memory: what breaks one is found too.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import BackupSpec, JobFailure, RangeToCopy
from streams_recovery.core.kafka_types import CommittedOffset, QuiesceMode, TopicPartition
from streams_recovery.core.offsets.snapshot import GroupOffsets, OffsetSnapshot
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.manifest import Manifest, SegmentFile
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.core.repository.publication import publication
from streams_recovery.core.repository.ranges import TableRef
from streams_recovery.core.repository.retention import Announcement, Pin
from streams_recovery.core.savepoint.cut import QuiesceRecord
from streams_recovery.core.scheduled_run import RunEntry, ScheduledRun
from streams_recovery.core.topic_holds.log import HoldEntry, HoldPurpose, TopicHold
from streams_recovery.core.words import moment
from streams_recovery.segments.files import contents_of
from streams_recovery.segments.queries import first_values, last_rows, rows_below
from streams_recovery.storage.json_object import read_value
from streams_recovery.storage.objects import packed, unpacked
from streams_recovery.storage.range_tables import RangeTables
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.examples.restore_plan import PLAN
from tests.support.examples.restore_report import REPORT
from tests.support.examples.savepoints import manifest_of
from tests.support.project import GOLDEN

APPLICATION, SAVEPOINT = "golden", "20261121T010000Z-0000000002"
MORE_MEMORY: Final = 1 << 30
_LONGEST_ERROR: Final = 5_000

ENTRIES: Final = (
    LockRecord(kind="acquire", owner="backup 1", purpose="savepoint", acquired=1, at=1, expires_at=2, took_over_from=None, process=None),
    HoldEntry(
        kind="applied",
        purpose=HoldPurpose.COPY,
        run="r",
        at=1,
        mark=7,
        topics=(TopicHold(topic="t", topic_id="i"),),
        clear=False,
    ),
    JournalEntry(phase=Phase.CREATED, at=1, created=(CreatedTopic(topic="t", topic_id="i"),)),
    QuiesceRecord(kind="begins", run="r", mode=QuiesceMode.STOP, instances=("one",), at=1),
    RunEntry(
        kind="begins",
        at=1,
        run=ScheduledRun(run_id="r", started_at=1, until=None, ends={TopicPartition("t", 0): 1}, before={}, gone={}, instances=("one",)),
    ),
    OwnershipEntry(role=Role.LIVE, other="o", run="r", at=1, offsets={TopicPartition("t", 0): 1}, again={}, tail={}),
    Pin(savepoint_id=SAVEPOINT, keep=True, at=1, requested_by="me", reason="r"),
    Announcement(at=1, deletes_from=2, rules="r", run_id="r"),
    publication(replace(manifest_of(), savepoint_id=SAVEPOINT, application_id=APPLICATION), "golden/x", b"x"),
    OffsetSnapshot(
        format_version=2,
        snapshot_id=SAVEPOINT,
        application_id=APPLICATION,
        cluster_id="c",
        taken_at=1,
        savepoint_id=None,
        requested_by="me",
        reason="née",
        groups=(
            GroupOffsets(
                group_id="g", kind="classic", topics={"t": "i"}, offsets={TopicPartition("t", 0): CommittedOffset(offset=5, metadata="")}
            ),
        ),
        unread={},
    ),
    BackupSpec(application_id="a", ranges=(RangeToCopy(tp=TopicPartition("t", 0), start=0, end=9, size_hint=9),), compression_level=3),
    JobFailure(error="Damaged", reason="r", next_step="n", facts={"a": "b"}),
    PLAN,
    REPORT,
)
# What stands in for a value, or a part of a text: numbers at every edge, other containers, depth, width, halves of characters.
HOSTILE: Final = (
    "null", "true", "[]", "{}", '""', "-1", "0", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e999", "1.0", "NaN",
    "1" * 400, '"\\ud800"', '"' + "x" * 5_000 + '"', "[" * 50 + "]" * 50, "[" * 5_000, "[" + "[]," * 20_000 + "[]]", '{"a":{"b":[1,{"c":2}]}}', '"../../x"',
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """One honest object: its bytes, how text is made of them and back, and what reads it. ``read`` is given the bytes to read."""

    name: str
    honest: bytes
    read: Callable[[bytes], object]
    plain: Callable[[bytes], bytes] | None = None
    store: Callable[[bytes], bytes] = bytes


def mutated(dice: random.Random, target: Target) -> bytes:
    """The object, changed in one to four places: in its text where it has one, or in its bytes."""
    text = target.plain(target.honest) if target.plain is not None and dice.random() < 0.8 else None
    data = target.honest if text is None else text
    for _ in range(dice.randint(1, 4)):
        data = _structure(dice, data) if text is not None and dice.random() < 0.7 else _bytes(dice, data)
    return data if text is None else target.store(data)


def _bytes(dice: random.Random, data: bytes) -> bytes:
    at, changed = dice.randrange(len(data) + 1), bytearray(data)
    end = min(len(data), at + dice.choice((1, 1, 4, 40)))
    match dice.randrange(6):
        case 0:
            changed[at:end] = bytes(dice.randrange(256) for _ in range(at, end))
        case 1:
            del changed[at:end]
        case 2:
            changed[at:at] = dice.randbytes(dice.choice((1, 4, 40)))
        case 3:
            changed[at:at] = data[at:end] * dice.choice((1, 3, 100))
        case 4:
            del changed[at:]
        case _:
            changed[at:end] = dice.choice((b"\0", b"\xff", b"\x7f")) * (end - at)
    return bytes(changed)


def _structure(dice: random.Random, data: bytes) -> bytes:
    """One value of a JSON text, or one key, replaced; or one part of it doubled."""
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return _bytes(dice, data)
    places: list[tuple[Any, Any]] = []
    _collect(plain, places)
    if not places:
        return dice.choice(HOSTILE).encode()
    holder, key = dice.choice(places)
    match dice.randrange(4):
        case 0 if isinstance(holder, dict):
            holder[dice.choice(("", "x", "format_version", "\ud800"))] = holder.pop(key)
        case 1 if isinstance(holder, list):
            holder.extend([holder[key]] * dice.choice((1, 50)))
        case 2:
            holder[key] = dice.choice(places)[0]
            return _dumped(plain) or data
        case _:
            mark = "\0hostile"
            holder[key] = mark
            return (_dumped(plain) or data).replace(json.dumps(mark).encode(), dice.choice(HOSTILE).encode())
    return _dumped(plain) or data


def _dumped(plain: Any) -> bytes | None:
    # A part that was put into itself has no text.
    try:
        return json.dumps(plain).encode()
    except (ValueError, RecursionError):
        return None


def _collect(plain: Any, places: list[tuple[Any, Any]]) -> None:
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ():
        places.append((plain, key))
        _collect(value, places)


def manifest_text(stored: bytes) -> bytes:
    """What is in a frame."""
    return unpacked(stored, "honest")


def targets(directory: Path) -> list[Target]:
    """Every reader, on objects in ``directory``."""
    repository = Repository(StorageLocation(backend="filesystem", path=str(directory)))
    golden = Repository(StorageLocation(backend="filesystem", path=str(GOLDEN / "good")))
    layout = Layout(APPLICATION)
    repository.create("begin", b"")

    def at(key: str, data: bytes) -> None:
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    for key in golden.keys(layout.range_tables):
        at(key, golden.get(key))

    def manifest(data: bytes) -> None:
        at(layout.manifest(SAVEPOINT), data)
        _use(SavepointStore(repository, layout).read(SAVEPOINT))

    def entry(kind: type[Any]) -> Callable[[bytes], None]:
        def read(data: bytes) -> None:
            at("entry.json", data)
            codec.dumps(read_value(repository, kind, "entry.json"))

        return read

    honest = golden.get(layout.manifest(SAVEPOINT))
    found = [Target("manifest", honest, manifest, plain=manifest_text, store=packed)]
    found += [Target(type(value).__name__, codec.dumps(value), entry(type(value)), plain=bytes) for value in ENTRIES]
    whole = SavepointStore(golden, layout).read(SAVEPOINT)
    for topic, ref in [(one.name, ref) for one in whole.topics for ref in one.tables]:
        stored = golden.get(layout.range_table(topic, ref.sha256))
        found.append(Target("range table", stored, _table(repository, layout, (topic, ref.ranges), at), plain=manifest_text, store=packed))
    files = [file for _, file in whole.files()]
    return found + [Target("segment", golden.get(file.key), _segment(repository, directory, file, at)) for file in files]


def _table(repository: Repository, layout: Layout, of: tuple[str, int], at: Callable[[str, bytes], None]) -> Callable[[bytes], None]:
    topic, ranges = of

    def read(data: bytes) -> None:
        # As a manifest would name it that somebody forged.
        ref = TableRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), ranges=ranges)
        at(layout.range_table(topic, ref.sha256), data)
        for columns in RangeTables(repository, layout).read(topic, ref).values():
            assert columns.possible
            assert len(list(columns)) == len(columns)
            columns.facts(1)

    return read


def _segment(repository: Repository, directory: Path, file: SegmentFile, at: Callable[[str, bytes], None]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        at(file.key, data)
        # As a manifest would say of it that somebody forged.
        forged = replace(file, bytes=len(data))
        for use in (rows_below, first_values, last_rows):
            use(repository, forged, 20)
        contents_of(directory / file.key, forged)

    return read


def _use(found: Manifest) -> None:
    """What listings, expiry and plans ask of every manifest."""
    codec.dumps(found)
    moment(found.captured_at)
    assert found.records >= 0
    assert found.profile
    assert found.replaces is None or found.replaces
    assert found.whole({}) == (not any(found.files()))
    assert all(offset.offset >= 0 for offset in found.committed().values())


def run(seed: int, seconds: float, directory: Path) -> dict[str, dict[str, int]]:
    """Fuzz for so long; how many objects of each kind were read, and how many refused. Raises what anything else ended in."""
    dice, end = random.Random(seed), time.monotonic() + seconds
    known, counts = targets(directory), dict[str, dict[str, int]]()
    while time.monotonic() < end:
        target = dice.choice(known)
        data = mutated(dice, target)
        (directory / "last").write_bytes(data)
        told = counts.setdefault(target.name, {"read": 0, "refused": 0})
        try:
            target.read(data)
        except Damaged as error:
            if not error.reason or not error.next_step or len(str(error)) > _LONGEST_ERROR:
                raise RuntimeError(f"no error for a person to read: {str(error)[:_LONGEST_ERROR]}") from error
            told["refused"] += 1
        except BaseException:
            sys.stderr.write(f"{target.name} with seed {seed}, see {directory / 'last'}:\n")
            raise
        else:
            told["read"] += 1
    return counts


def main() -> int:
    """The command."""
    seed, seconds, directory = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    for target in targets(directory / "first"):
        # What is loaded when something is read for the first time is not of the object.
        target.read(target.honest)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_MEMORY, size + MORE_MEMORY))
    sys.stdout.write(json.dumps(run(seed, seconds, directory / "fuzz")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
