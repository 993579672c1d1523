"""The savepoint whose records were placed anew, and what a job has to show for it."""

from __future__ import annotations

import base64
import struct
from dataclasses import replace

import pytest

from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, KeyForm, StoreKind, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.proof import NamedLogCut, NamedProof
from streams_recovery.core.repository.compaction_proof import RescaledFrom, RescaledLog
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionImage, Provenance, TopicImage
from streams_recovery.core.repository.publication import savepoint_facts
from streams_recovery.core.rescale.moved import (
    PartitionPlaced,
    RescaleResult,
    TopicToPlace,
    check_base,
    check_result,
    moved,
    unread_from,
    with_grown,
)
from streams_recovery.core.rescale.placement import FormProof, RescaledTopic
from streams_recovery.core.rescale.values import stream_time
from tests.support.examples.savepoints import image, manifest_of, segment, topic
from tests.support.repository.stored import stored, with_keys

INPUT, LOG = RescaledTopic(name="in", old=2, new=4), RescaledTopic(name="app-s-changelog", old=2, new=4)
PROVENANCE = Provenance(run_id="r", requested_by="me", reason="", software={})


def time(at: int) -> str:
    return base64.b64encode(struct.pack(">Bq", 2, at)).decode()


def part(number: int, *, commit: int | None = None, metadata: str = "") -> PartitionImage:
    found = replace(image((segment(0, 10, [1, 5], key=f"orders/segments/t/{number}/{0:020}-{10:020}-a.parquet"),)), partition=number)
    return replace(found, committed=None if commit is None else CommittedOffset(offset=commit, metadata=metadata))


def source() -> Manifest:
    inputs = topic((part(0, commit=4, metadata=time(7)), part(1, commit=5, metadata=time(9))), name="in", role=TopicRole.INPUT)
    return manifest_of(inputs, topic((part(0), part(1)), name="app-s-changelog"), topic((part(0),), name="other"))


def placed(name: str, number: int, *, end: int = 4, unread_from: int = 0) -> PartitionPlaced:
    piece = replace(segment(0, 1, [0], key=f"orders/segments/{name}/{number}/{0:020}-{1:020}-b.parquet"))
    return PartitionPlaced(
        tp=TopicPartition(name, number), ranges=(piece, CopiedRange(start=1, end=end, file=None)), end=end, unread_from=unread_from
    )


def proof(name: str, **changes: object) -> RescaledLog:
    one = RescaledLog(
        topic=name, old=2, new=4, form=KeyForm.WHOLE, records=4, keys_before=3, keys_after=3, digest_before="d", digest_after="d"
    )
    return replace(one, **changes)


def result(*, log: RescaledLog | None = None, unread_from: int = 0) -> RescaleResult:
    return RescaleResult(
        proofs=tuple(FormProof(topic=name, form=KeyForm.WHOLE, records=4, keyless=0, keys=3) for name in ("in", "app-s-changelog")),
        partitions=tuple(placed(name, number, unread_from=unread_from) for name in ("in", "app-s-changelog") for number in range(4)),
        logs=(proof("in"), log or proof("app-s-changelog")),
        seconds=1.0,
    )


PLANNED = tuple(
    TopicToPlace(topic=one, kind=kind, partitions=(), primary=None) for one, kind in ((INPUT, None), (LOG, StoreKind.KEY_VALUE))
)


def made() -> Manifest:
    check_result(PLANNED, result(unread_from=2))
    return moved(source(), [INPUT, LOG], result(unread_from=2), savepoint_id="20261121T010000Z-00000000aa", provenance=PROVENANCE)


def of(manifest: Manifest, name: str) -> TopicImage:
    found = manifest.topic(name)
    assert found is not None
    return found


def test_the_moment_is_the_same_in_other_partitions() -> None:
    before, after = source(), made()
    assert (after.captured_at, after.consistency, after.parent_id) == (before.captured_at, before.consistency, before.savepoint_id)
    assert of(after, "other") == of(before, "other")
    assert [one.partition for one in of(after, "app-s-changelog").partitions] == [0, 1, 2, 3]
    assert {(one.log_start, one.end, one.committed) for one in of(after, "app-s-changelog").partitions} == {(0, 4, None)}
    assert after.provenance.rescaled_from == RescaledFrom(savepoint_id=before.savepoint_id, topics=(proof("app-s-changelog"), proof("in")))


def test_an_offset_has_the_stream_time_of_the_partitions_whose_keys_it_gets() -> None:
    offsets = [one.committed for one in of(made(), "in").partitions]
    assert offsets == [CommittedOffset(offset=2, metadata=time(at)) for at in (7, 9, 7, 9)]
    fewer = replace(INPUT, new=1)
    one = RescaleResult(proofs=(), partitions=(placed("in", 0),), logs=(proof("in"),), seconds=1)
    joined = moved(source(), [fewer], one, savepoint_id="20261121T010000Z-00000000aa", provenance=PROVENANCE)
    assert [part.committed for part in of(joined, "in").partitions] == [CommittedOffset(offset=0, metadata=time(9))]


def test_it_is_never_the_newest_and_stands_for_no_other() -> None:
    assert made().taken_by_name
    assert made().replaces is None
    assert not source().taken_by_name
    assert (savepoint_facts(made()).rescaled, savepoint_facts(source()).rescaled) == (True, None)


def test_it_is_read_again_as_it_was_written_and_refused_without_its_proof() -> None:
    after = with_keys(made())
    read = stored(after)
    assert read.provenance.rescaled_from == after.provenance.rescaled_from
    for wrong in (
        proof("in", digest_after="e"),
        proof("in", records=5),
        proof("in", new=5),
        proof("gone"),
        proof("in", keys_before=0, keys_after=0),
    ):
        forged = RescaledFrom(savepoint_id=after.savepoint_id, topics=(wrong,))
        with pytest.raises(Damaged, match="is rescaled from"):
            stored(replace(after, provenance=replace(after.provenance, rescaled_from=forged)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda found: replace(found, partitions=found.partitions[1:]), "did not place what was planned"),
        (lambda found: replace(found, partitions=(*found.partitions, found.partitions[0])), "did not place what was planned"),
        (lambda found: replace(found, logs=found.logs[1:]), "did not place what was planned"),
        (lambda found: replace(found, proofs=found.proofs[1:]), "did not prove what was planned"),
        (lambda found: replace(found, partitions=(replace(found.partitions[0], end=5), *found.partitions[1:])), "did not place"),
        (
            lambda found: replace(found, logs=(proof("in", digest_after="e"), found.logs[1])),
            "does not hold the same in 4 partitions as in 2",
        ),
        (lambda found: replace(found, logs=(proof("in", keys_after=2), found.logs[1])), "does not hold the same"),
        (lambda found: replace(found, logs=(proof("in", records=5), found.logs[1])), "5 records and 3 keys became 4 and 3"),
    ],
)
def test_a_result_that_is_not_whole_is_not_published(change, why: str) -> None:
    with pytest.raises(Damaged, match=why):
        check_result(PLANNED, change(result()))


def edited(name: str, **changes: object) -> Manifest:
    found = source()
    return replace(found, topics=tuple(replace(one, **changes) if one.name == name else one for one in found.topics))


GAP = Gap(start=4, end=6, reason="gone")


@pytest.mark.parametrize(
    ("manifest", "topics", "why"),
    [
        (replace(source(), consistency=Consistency.AHEAD), [INPUT], "is `ahead`"),
        (made(), [INPUT], "is rescaled already"),
        (source(), [], "no topic would change"),
        (source(), [replace(INPUT, name="gone")], "is not in the savepoint"),
        (source(), [replace(INPUT, old=3)], "it has 2 partitions there, and would get 4 in place of 3"),
        (source(), [replace(INPUT, new=0)], "would get 0"),
        (edited("in", role=TopicRole.OUTPUT), [INPUT], "it is an output topic"),
        (edited("in", role=TopicRole.GLOBAL), [INPUT], "it is a global topic"),
        (edited("in", archived=False), [INPUT], "from offset 4 on are unread and not in the savepoint"),
        (
            edited("in", partitions=(replace(part(0, commit=4), gaps=(GAP,)), part(1, commit=4))),
            [INPUT],
            "records of its partition 0 are missing",
        ),
    ],
)
def test_what_cannot_be_placed_anew_is_refused(manifest: Manifest, topics: list[RescaledTopic], why: str) -> None:
    with pytest.raises(Refused, match=why):
        check_base(manifest, topics)


def test_records_that_were_read_may_be_missing_without_history() -> None:
    read = edited("in", partitions=tuple(replace(part(number, commit=8), gaps=(GAP,)) for number in (0, 1)))
    check_base(read, [INPUT])
    with pytest.raises(Refused, match="are missing there"):
        check_base(read, [replace(INPUT, history=True)])
    check_base(edited("in", archived=False, partitions=(part(0, commit=10), part(1, commit=10))), [INPUT])


def test_of_a_group_that_begins_at_the_end_a_partition_without_an_offset_has_nothing_unread() -> None:
    assert (unread_from(part(0)), unread_from(part(0), at_end=True), unread_from(part(0, commit=4), at_end=True)) == (0, 10, 4)
    bare = edited("in", archived=False, partitions=(part(0), part(1, commit=10)))
    check_base(bare, [INPUT], at_end=True)
    with pytest.raises(Refused, match="from offset 0 on are unread"):
        check_base(bare, [INPUT])


def test_a_partition_by_which_an_input_was_grown_has_the_stream_time_of_its_keys() -> None:
    """Without it windows that were closed would open again there."""
    whole = (part(0, commit=10, metadata=time(7)), part(1, commit=10, metadata=time(9)), *map(part, (2, 3)))
    after = with_grown(edited("in", partitions=whole), [INPUT]).topics[0]
    assert [one.committed for one in after.partitions] == [CommittedOffset(offset=10, metadata=time(at)) for at in (7, 9, 7, 9)]
    joined = with_grown(edited("in", partitions=whole[:3]), [replace(INPUT, new=3)]).topics[0]
    assert [stream_time(one.committed.metadata) for one in joined.partitions if one.committed] == [9, 9, 9]


def test_what_is_left_out_of_outputs_by_name_stays_known() -> None:
    """Else an output that comes back would have what the application writes again."""
    group, log = TopicPartition("__consumer_offsets", 0), NamedLogCut(start=0, end=10, records=2, excluded=())
    stays, goes = TopicPartition("other", 0), TopicPartition("in", 0)
    names = NamedProof(group=group, group_end=0, last=(), taken_back=(), logs={stays: log, goes: log})
    before = replace(source(), proof=replace(source().proof, names=names, past_end=(stays, goes)))
    after = moved(before, [INPUT, LOG], result(), savepoint_id=made().savepoint_id, provenance=PROVENANCE).proof
    assert after.names is not None
    assert (list(after.names.logs), after.past_end) == ([stays], (stays,))
