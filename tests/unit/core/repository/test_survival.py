"""Whether a savepoint is enough when the cluster has lost everything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.kafka_types import Consistency, TopicRole
from streams_recovery.core.repository.manifest import Gap, Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.survival import lost_with_cluster
from tests.support.examples.savepoints import image, manifest_of, segment, topic

WHOLE = image((segment(0, 10, [1, 4, 8]),))
LATE = image((segment(3, 10, [4, 8]),), start=3)
HOLED = replace(image((segment(0, 4, [1]), segment(6, 10, [8]))), gaps=(Gap(start=4, end=6, reason="gone"),))
EMPTY = image((), end=0)
STATE = topic((WHOLE,), name="orders-s-changelog")
NOT_ARCHIVED = image(())


def read(role: TopicRole, *partitions: PartitionImage, archived: bool = True) -> TopicImage:
    return replace(topic(partitions, name=str(role), role=role), archived=archived)


def full(*topics: TopicImage, **changes: object) -> Manifest:
    return replace(manifest_of(STATE, *topics), **changes)  # type: ignore[arg-type]


def minimal(*topics: TopicImage) -> Manifest:
    return manifest_of(replace(STATE, archived=False, partitions=(NOT_ARCHIVED,)), *topics)


INPUT, GLOBAL, OUTPUT = (read(role, WHOLE) for role in (TopicRole.INPUT, TopicRole.GLOBAL, TopicRole.OUTPUT))


@pytest.mark.parametrize(
    "manifest",
    [
        full(INPUT, GLOBAL, OUTPUT),
        full(INPUT, read(TopicRole.OUTPUT, NOT_ARCHIVED, archived=False)),
        full(read(TopicRole.INPUT, LATE)),
        full(INPUT, consistency=Consistency.AHEAD),
        full(read(TopicRole.INPUT, replace(EMPTY, committed=None))),
        minimal(INPUT, GLOBAL),
        minimal(read(TopicRole.INPUT, WHOLE, replace(EMPTY, partition=1, committed=None)), read(TopicRole.GLOBAL, LATE)),
    ],
    ids=["all", "without outputs", "input begins late", "ahead", "empty input", "minimal", "minimal, global begins late"],
)
def test_a_savepoint_with_all_that_is_read_survives(manifest: Manifest) -> None:
    assert lost_with_cluster(manifest) == ()
    assert not lost_with_cluster(manifest)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (full(read(TopicRole.INPUT, NOT_ARCHIVED, archived=False), GLOBAL), "the records of input are not archived"),
        (full(INPUT, read(TopicRole.GLOBAL, NOT_ARCHIVED, archived=False)), "the records of global are not archived"),
        (minimal(read(TopicRole.INPUT, NOT_ARCHIVED, archived=False)), "the records of input are not archived"),
        (full(INPUT, consistency=Consistency.DAMAGED), "parts of the application were gone"),
        (
            full(read(TopicRole.INPUT, replace(LATE, committed=replace(WHOLE.committed, offset=2)))),
            "committed offset 2 of input-0 lies outside",
        ),  # type: ignore[type-var]
        (
            full(read(TopicRole.INPUT, replace(HOLED, committed=replace(WHOLE.committed, offset=4)))),
            "behind its committed offset 4 are missing",
        ),  # type: ignore[type-var]
        (
            replace(full(INPUT), topics=(replace(STATE, partitions=(HOLED,)), INPUT)),
            "offsets 4..5 of orders-s-changelog-0 are missing: gone",
        ),
        (minimal(read(TopicRole.INPUT, LATE)), "input-0 is archived from offset 3 on, and without state all of it is needed"),
        (minimal(read(TopicRole.INPUT, HOLED)), "input-0 is archived from offset 6 on, and without state all of it is needed"),
    ],
)
def test_what_would_be_missing_is_said(manifest: Manifest, said: str) -> None:
    [reason] = lost_with_cluster(manifest)
    assert said in reason
    assert lost_with_cluster(manifest)


def test_a_hole_below_the_committed_offset_of_a_full_one_harms_nothing() -> None:
    behind = replace(HOLED, committed=replace(WHOLE.committed, offset=7))  # type: ignore[type-var]
    assert not lost_with_cluster(full(read(TopicRole.INPUT, behind)))
