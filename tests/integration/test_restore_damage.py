"""A savepoint that is damaged is refused before a restore touches anything; one in a bucket that locks everything is as good as any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from embedded.stores.s3 import S3Server
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Manifest, SegmentFile
from streams_recovery.core.topic_holds.log import HoldEntry
from streams_recovery.operations import maintenance, restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.range_tables import RangeTables
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.applications.restore_steps import end, loaded, opened, saved
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked
from tests.support.applications.topic_records import produce
from tests.support.repository.golden import checked


def chain(small: Small) -> tuple[str, str]:
    """Two savepoints; the second one shares the first one's files."""
    first = publish(small)
    produce(small.recovery, small.changelog, 3)
    return first, publish(small)


def files(small: Small, savepoint_id: str, tp: TopicPartition) -> list[SegmentFile]:
    return [file for found, file in small.recovery.savepoints.read(savepoint_id).files() if found == tp]


def root(recovery: RecoveryContext) -> Path:
    return Path(str(recovery.config.storage.path))


def replacing(recovery: RecoveryContext) -> restore.RestoreRequest:
    """The request that could do most harm: it may delete running state, and saves nothing before."""
    return asked(recovery, replace=True, safety=restore.SafetyPolicy.SKIP)


def untouched(small: Small, before: dict[str, str]) -> bool:
    return topic_ids(small) == before and end(small) == 7


def topic_ids(small: Small) -> dict[str, str]:
    names = [small.changelog.topic, small.tail.topic]
    return {name: found.topic_id for name, found in small.recovery.cluster.describe_topics(names).items()}


DAMAGES: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "a byte short": lambda data, _other: data[:-1],
    "half": lambda data, _other: data[: len(data) // 2],
    "empty": lambda _data, _other: b"",
    "longer": lambda data, _other: data + b"x",
    "another one's": lambda _data, other: other,
    "missing middle": lambda _data, _other: None,
}


@pytest.mark.fault("F9")
def test_a_damaged_file_is_named_and_nothing_is_touched(small: Small) -> None:
    _, newest = chain(small)
    recovery, before = small.recovery, topic_ids(small)
    planned = restore.plan(recovery, replacing(recovery))
    first, second = (root(recovery) / file.key for file in files(small, newest, small.changelog))
    whole, other = first.read_bytes(), second.read_bytes()
    assert len(whole) != len(other)
    for name, damage in DAMAGES.items():
        damaged = damage(whole, other)
        if damaged is None:
            first.unlink()
        else:
            first.write_bytes(damaged)
        problem = "is missing" if damaged is None else f"has {len(damaged)} bytes, not {len(whole)}"
        with pytest.raises(Damaged, match=problem) as caught:
            restore.plan(recovery, replacing(recovery))
        assert "is not whole, 1 of its files cannot be used" in str(caught.value), name
        assert first.name in str(caught.value), name
        assert caught.value.exit_code == 6, name
    with pytest.raises(Damaged, match="is missing"):
        restore.open_restore(recovery, replacing(recovery), run_id="r", requested_by="test", approved_hash=planned.hash)
    assert recovery.lock.holder() is None
    assert untouched(small, before)
    first.write_bytes(whole)
    assert restore.plan(recovery, replacing(recovery)).hash == planned.hash


@pytest.mark.deep
@pytest.mark.fault("F9")
def test_damage_after_the_approval_is_found_before_anything_is_deleted(small: Small) -> None:
    _, newest = chain(small)
    before = topic_ids(small)
    ticket = opened(small.recovery, replacing(small.recovery))
    saved(small.recovery, ticket)
    (root(small.recovery) / files(small, newest, small.changelog)[0].key).write_bytes(b"")
    with pytest.raises(Damaged, match="has 0 bytes"):
        restore.prepare(small.recovery, ticket)
    assert untouched(small, before)


def edited(recovery: RecoveryContext, savepoint_id: str, change: Callable[[Manifest], Manifest]) -> None:
    named, tables = RangeTables(recovery.repository, recovery.layout).placed(change(recovery.savepoints.read(savepoint_id)), where="here")
    for table in tables:
        recovery.repository.create(table.key, table.data)
    changed = codec.dumps(named)
    (root(recovery) / recovery.layout.manifest(savepoint_id)).write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(changed))


def without_files(manifest: Manifest) -> Manifest:
    """An edit that is consistent in itself: every range was empty."""

    def bare(image):
        return replace(image, ranges=tuple(replace(piece, file=None) for piece in image.ranges))

    return replace(manifest, topics=tuple(replace(topic, partitions=tuple(map(bare, topic.partitions))) for topic in manifest.topics))


def swapped(recovery: RecoveryContext, first: str, second: str) -> None:
    one, other = (root(recovery) / recovery.layout.manifest(savepoint) for savepoint in (first, second))
    one_bytes = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(one_bytes)


@pytest.mark.fault("F11")
def test_a_manifest_that_is_not_what_was_published_is_refused(small: Small) -> None:
    first, newest = chain(small)
    recovery, before = small.recovery, topic_ids(small)
    paths = [root(recovery) / recovery.layout.manifest(savepoint) for savepoint in (first, newest)]
    published = [path.read_bytes() for path in paths]
    damages: dict[str, Callable[[], object]] = {
        "is not the one that was published": lambda: edited(recovery, newest, without_files),
        f"holds savepoint {first}": lambda: swapped(recovery, first, newest),
        "not a compressed manifest": lambda: paths[1].write_bytes(published[1][:-1]),
        "there is no savepoint": paths[1].unlink,
    }
    for problem, damage in damages.items():
        damage()
        with pytest.raises((Damaged, NotFound), match=problem):
            restore.plan(recovery, replace(replacing(recovery), savepoint=newest))
        for path, data in zip(paths, published, strict=True):
            path.write_bytes(data)
    assert untouched(small, before)


@pytest.mark.deep
@pytest.mark.fault("F11")
def test_a_file_that_no_manifest_names_is_never_read(small: Small) -> None:
    _, newest = chain(small)
    request = replace(replacing(small.recovery), savepoint=newest)
    planned = restore.plan(small.recovery, request)
    segment = root(small.recovery) / files(small, newest, small.changelog)[0].key
    segment.with_name(segment.name.replace("-", "-extra-", 1)).write_bytes(b"not even Parquet")
    assert restore.plan(small.recovery, request).hash == planned.hash


@pytest.mark.deep
@pytest.mark.fault("F18")
@pytest.mark.parametrize("kind", ["plain", "compliance"])
def test_a_bucket_that_gives_nothing_back_holds_savepoints_and_restores_from_them(small: Small, s3: S3Server, kind: str) -> None:
    location = s3.bucket(kind)
    writer = s3.writer(location)
    repository, layout = Repository(location, writer), small.recovery.layout
    recovery = replace(
        small.recovery,
        credentials=writer,
        repository=repository,
        savepoints=SavepointStore(repository, layout),
        safety=SavepointStore(repository, layout.safety),
        artifacts=RunArtifacts(repository, layout),
        hold_log=AppendLog(repository, layout.holds, HoldEntry),
        lock=ApplicationLock(repository, layout, small.recovery.clock),
    )
    there = replace(small, recovery=recovery)
    _, newest = chain(there)
    report = checked(recovery, "full")
    assert (report.good, report.savepoints, report.files_read) == (True, 2, 4), report
    ticket = opened(recovery, replacing(recovery))
    saved(recovery, ticket)
    assert loaded(recovery, ticket) == 10, "seven records of the changelog, three of the tail"
    assert end(there) == 7
    recovery.lock.release(ticket.lock)
    (left,) = maintenance.expire(replace(recovery, config=with_few(recovery)), "r").left
    assert "is not allowed" in left, "nor is this user told how long the bucket holds it"
    assert newest in recovery.savepoints.ids()


def with_few(recovery: RecoveryContext):
    rules = {f"keep_{rule}": 0 for rule in ("hourly", "daily", "weekly", "monthly")}
    return recovery.config.model_copy(
        update={"retention": recovery.config.retention.model_copy(update={**rules, "keep_last": 1, "minimum": 1})}
    )
