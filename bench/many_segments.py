"""What a repository costs that names many segments: planning, publishing and checking the next savepoint, planning a restore, and listing many savepoints.

    PYTHONPATH=plugins:. .venv/bin/python bench/many_segments.py [--segments 1000000] [--savepoints 1000]

No segment is stored, and no broker or Spark is asked: what is measured is what manifests, range tables and summaries cost. The listing of the segments
themselves, of which an object store gives a thousand in one answer, is taken as given. Each part has a process of its own, whose largest memory is
told. Figures depend on the machine; it asserts nothing about time.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from streams_recovery.core import codec
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.approval import approval
from streams_recovery.core.jobs.spec import PartitionToLoad, RestoreSpec
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Guarantee, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import (
    CopiedRange,
    CutProof,
    Manifest,
    PartitionCut,
    PartitionImage,
    Provenance,
    SegmentFile,
    TopicImage,
)
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.plan import RestorePlan, check_plan
from streams_recovery.core.restore.planned import Observed
from streams_recovery.core.restore.rebuild import Placed
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.restore.topic_settings import TargetSettings
from streams_recovery.core.savepoint.chain import ChainPolicy
from streams_recovery.operations.restore.placing import RestoreSource, topic_to_create
from streams_recovery.operations.savepoint.copy import copy_plan
from streams_recovery.operations.savepoint.values import CutDraft, DraftTopic
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

APPLICATION = "bench"
LAYOUT = Layout(APPLICATION)
T0 = 1_795_219_200_000
SPAN, HOUR = 50_000, 3_600_000
TOPICS, PARTITIONS = 20, 50
PROOF = CutProof(
    mode=QuiesceMode.PAUSE,
    committed_unchanged=True,
    stable_reached=True,
    still_between_reads=True,
    held_seconds=0.4,
    attempts=1,
    reasons=(),
)


def copied(topic: str, partition: int, number: int) -> CopiedRange:
    """A range as a savepoint of that number copied it; like those of a real one, no two have the same numbers."""
    tp, start = TopicPartition(topic, partition), number * SPAN
    digest = hashlib.sha256(f"{topic} {partition} {number}".encode()).hexdigest()
    seed = int(digest[:8], 16)
    rows = SPAN - 1 - seed % 9_000
    file = SegmentFile(
        key=LAYOUT.segment(tp, start, start + SPAN, f"{seed % 4_096}-{digest[32:]}"),
        bytes=rows * 25 + seed % 50_000,
        sha256=digest,
        rows=rows,
        first_offset=start + seed % 3,
        last_offset=start + SPAN - 2,
        min_timestamp=T0 + number * HOUR + seed % 5_000,
        max_timestamp=T0 + (number + 1) * HOUR + seed % 7_000,
        payload_bytes=rows * 100 + seed % 90_000,
        largest_record=1,
    )
    return CopiedRange(start=start, end=start + SPAN, file=file)


def savepoint(number: int, topics: tuple[TopicImage, ...], parent: str | None) -> Manifest:
    """The savepoint of that number."""
    return Manifest(
        format_version=8,
        savepoint_id=f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime((T0 + number * HOUR) / 1000))}-{number:010x}",
        application_id=APPLICATION,
        cluster_id="c",
        captured_at=T0 + number * HOUR,
        consistency=Consistency.EXACT,
        proof=PROOF,
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        group_type="classic",
        parent_id=parent,
        topics=topics,
        claimed=(),
        provenance=Provenance(run_id=f"run-{number}", requested_by="bench", reason="", software={}),
    )


def topic(name: str, ranges: list[Ranges], ends: int) -> TopicImage:
    """A changelog with these ranges of its partitions."""
    images = tuple(
        PartitionImage(
            partition=number,
            log_start=0,
            last_stable=ends,
            end=ends,
            leader_epoch=3,
            committed=CommittedOffset(offset=ends, metadata="AgAAAZ0", leader_epoch=3),
            ranges=one,
            gaps=(),
        )
        for number, one in enumerate(ranges)
    )
    return TopicImage(
        name=name,
        role=TopicRole.CHANGELOG,
        topic_id=f"{name}-id",
        replication_factor=3,
        config={"cleanup.policy": "compact", "delete.retention.ms": str(10**13)},
        in_force={},
        store=None,
        archived=True,
        full_since=T0,
        partitions=images,
    )


def names(topics: int) -> list[str]:
    """Names of changelogs."""
    return [f"{APPLICATION}-store-{number}-changelog" for number in range(topics)]


def store_in(directory: Path) -> SavepointStore:
    """The repository."""
    return SavepointStore(Repository(StorageLocation(backend="filesystem", path=str(directory))), LAYOUT)


def fill_one(directory: Path, segments: int) -> None:
    """One savepoint that names so many segments."""
    each = segments // (TOPICS * PARTITIONS)
    topics = [
        topic(name, [Ranges.of(copied(name, number, at) for at in range(each)) for number in range(PARTITIONS)], each * SPAN)
        for name in names(TOPICS)
    ]
    store_in(directory).publish(savepoint(each, tuple(topics), None))


def fill_many(directory: Path, savepoints: int) -> None:
    """So many savepoints, each with one new segment in each of ten partitions of one topic."""
    store, [name] = store_in(directory), names(1)
    known, parent = [Ranges() for _ in range(10)], None
    for at in range(savepoints):
        ranges = [one.with_behind([copied(name, number, at)]) for number, one in enumerate(known)]
        made = savepoint(at, (topic(name, ranges, (at + 1) * SPAN),), parent)
        store.publish(made)
        parent = made.savepoint_id
        known = [image.ranges for image in store.outline(parent).topics[0].partitions]


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print what took how many seconds: by the clock, and of a core's time."""
    began, used = time.monotonic(), time.process_time()
    yield
    sys.stdout.write(f"{what}\t{time.monotonic() - began:.2f} ({time.process_time() - used:.2f} of a core)\n")


def next_one(directory: Path, _: int) -> None:
    """Plan, check and publish the savepoint after the one that is there."""
    store = store_in(directory)
    [newest] = store.ids()
    with timed("plan: the newest savepoint without its ranges, and what is to be copied"):
        parent = store.outline(newest)
        draft = _draft(parent)
        plan = copy_plan(
            draft, parent, ChainPolicy(max_savepoints=10**9, max_age_days=10**6), {}, {one.name: one.config for one in draft.topics}
        )
        if not all(one.shares for one in plan.partitions):
            raise SystemExit("something is copied anew, so this says nothing")
    with timed("plan: the newest savepoint with its ranges"):
        whole = store.read(newest)
    sizes = {key: size for one in whole.topics for image in one.partitions for key, size in image.ranges.sizes()}
    with timed("plan: whether all of its files are there, the listing given"):
        if not whole.whole(sizes):
            raise SystemExit("files are missing")
    told_memory()
    with timed("publish the next one"):
        topics = [_grown(one) for one in parent.topics]
        store.publish(savepoint((parent.captured_at - T0) // HOUR + 1, tuple(topics), newest))
    told_memory()


def _grown(before: TopicImage) -> TopicImage:
    number = before.partitions[0].end // SPAN
    ranges = [image.ranges.with_behind([copied(before.name, image.partition, number)]) for image in before.partitions]
    return topic(before.name, ranges, before.partitions[0].end + SPAN)


def _draft(parent: Manifest) -> CutDraft:
    topics = tuple(
        DraftTopic(
            name=one.name,
            role=one.role,
            topic_id=one.topic_id,
            replication_factor=one.replication_factor,
            config=one.config,
            in_force=one.in_force,
            store=None,
            archived=True,
            evidence=one.evidence,
            partitions=tuple(
                PartitionCut(
                    tp=TopicPartition(one.name, image.partition),
                    log_start=0,
                    last_stable=image.end + SPAN,
                    end=image.end + SPAN,
                    leader_epoch=3,
                    committed=image.committed,
                )
                for image in one.partitions
            ),
        )
        for one in parent.topics
    )
    return CutDraft(
        captured_at=parent.captured_at + HOUR,
        cluster_id="c",
        group_type="classic",
        consistency=Consistency.EXACT,
        proof=PROOF,
        topics=topics,
        claimed=(),
        tails=(),
        assumed=(),
    )


def listing(directory: Path, savepoints: int) -> None:
    """List all savepoints as the command and the pages do."""
    with timed(f"list {savepoints:,} savepoints"):
        found = store_in(directory).summaries()
    if len(found) != savepoints:
        raise SystemExit("not all are listed")
    told_memory()


def restore_one(directory: Path, _: int) -> None:
    """Plan a restore of the savepoint that is there, and tell Spark what to load."""
    store = store_in(directory)
    [newest] = store.ids()
    with timed("restore: the savepoint with its ranges"):
        source = RestoreSource(manifest=store.read(newest))
    with timed("restore: the plan, checked, and what a person approves"):
        planned = _planned(source)
        check_plan(planned, where="the plan")
        approval(planned)
    with timed("restore: the plan stored and read"):
        planned = codec.loads(RestorePlan, codec.dumps(planned), where="the plan")
    with timed("restore: what the Spark job is told, stored and read"):
        loads = tuple(
            PartitionToLoad(tp=TopicPartition(topic.name, part.partition), first_offset=0, files=part.files)
            for topic in planned.create
            for part in topic.partitions
        )
        spec = codec.dumps(RestoreSpec(application_id=APPLICATION, partitions=loads))
        codec.loads(RestoreSpec, spec, where="the specification")
    sys.stdout.write(f"restore: bytes of that specification\t{len(spec):,}\n")
    told_memory()


def _planned(source: RestoreSource) -> RestorePlan:
    create = tuple(
        topic_to_create(
            Placed(image=topic, name=topic.name, made=True), None, source, ApplicationKind.KAFKA_STREAMS.dialect, TargetSettings()
        )
        for topic in source.manifest.topics
    )
    return RestorePlan(
        application_id=APPLICATION,
        source_application_id=APPLICATION,
        savepoint_id=source.manifest.savepoint_id,
        captured_at=source.manifest.captured_at,
        consistency=source.manifest.consistency,
        safety=SafetyPolicy.REQUIRED,
        delete=(),
        create=create,
        offsets=(),
        strategy="exact",
        part=SavepointPart(),
        offsets_agree=True,
        warnings=(),
        observed=Observed(instances=(), offsets_replaced={}, offsets_before={}, records_to_catch_up=0),
    )


def told_memory() -> None:
    """Print the largest memory so far."""
    sys.stdout.write(f"largest memory so far, MB\t{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}\n")


PARTS: dict[str, Callable[[Path, int], None]] = {
    "fill_one": fill_one,
    "next_one": next_one,
    "restore_one": restore_one,
    "fill_many": fill_many,
    "listing": listing,
}


def _part(name: str, directory: Path, count: int) -> list[list[str]]:
    command = [sys.executable, __file__, "--part", name, "--directory", str(directory), "--count", str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def _stored(directory: Path) -> list[list[str]]:
    sizes = [(path.suffix, path.stat().st_size) for path in directory.rglob("*") if path.is_file()]
    return [["objects, and bytes of them all", f"{len(sizes):,}, {sum(size for _, size in sizes):,}"]]


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--segments", type=int, default=1_000_000)
    arguments.add_argument("--savepoints", type=int, default=1_000)
    arguments.add_argument("--part")
    arguments.add_argument("--directory", type=Path)
    arguments.add_argument("--count", type=int)
    asked = arguments.parse_args()
    if asked.part:
        PARTS[asked.part](asked.directory, asked.count)
        return
    table = Table("what", "figure")
    for count, what, fill, measures in (
        (asked.segments, "segments in one savepoint", "fill_one", ("restore_one", "next_one")),
        (asked.savepoints, "savepoints", "fill_many", ("listing",)),
    ):
        with tempfile.TemporaryDirectory(prefix="many-segments-") as name:
            _part(fill, Path(name), count)
            before = _stored(Path(name))
            figures = [row for measure in measures for row in _part(measure, Path(name), count)]
            rows = [[f"{count:,} {what}", ""], *before, *figures, *_stored(Path(name))]
        for row in rows:
            table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
