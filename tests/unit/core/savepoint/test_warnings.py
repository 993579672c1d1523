"""What is said about a savepoint: everything that is true of it, once, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.kafka_types import Claim, ClaimedTopic, StoreKind, TopicRole
from streams_recovery.core.repository.manifest import Gap, Manifest, SegmentFile, TopicImage
from streams_recovery.core.savepoint import warnings
from streams_recovery.core.topic_settings import LOG_APPEND, TIMESTAMP_TYPE, InForce, SettingSource
from tests.support.examples.savepoints import committed, image, manifest_of, segment, topic

HOLE = Gap(start=3, end=7, reason="tried")


def with_hole(*gaps: Gap) -> Manifest:
    part = replace(image((segment(0, 3, [0, 2]), segment(7, 10, [9]))), gaps=gaps)
    return manifest_of(topic((part,), name="in", role=TopicRole.INPUT))


def test_a_savepoint_like_any_other_needs_no_words() -> None:
    plain = manifest_of(topic((image((segment(0, 10, [0, 9]),)),)))
    assert warnings.of_savepoint(plain, None) == ()
    assert warnings.of_restore(plain) == ()


def test_internal_topics_that_may_be_another_application_s_are_told() -> None:
    known = topic((image((segment(0, 10, [0, 9]),)),))
    (told,) = warnings.of_savepoint(manifest_of(known, replace(known, name="orders-v1-t-changelog", evidence=None)), None)
    assert "nothing but the name says that orders-v1-t-changelog is orders's: saved, and no restore and no rebuild deletes" in told
    assert all(key in told for key in ("`stores`", "topics.owned", "topics.foreign"))


@pytest.mark.parametrize("because", list(Claim))
def test_a_topic_that_is_left_out_is_told_with_the_reason(because: Claim) -> None:
    claim = ClaimedTopic(topic="orders-v1-t-changelog", group=None if because is Claim.FOREIGN else "orders-v1", because=because)
    (told,) = warnings.of_savepoint(replace(manifest_of(), claimed=(claim,)), None)
    assert told.startswith(f"orders-v1-t-changelog is not in this savepoint: {claim.why};")
    assert "None" not in told


def test_a_hole_is_told_by_the_savepoint_that_finds_it() -> None:
    (told,) = warnings.of_savepoint(with_hole(HOLE), None)
    assert told.startswith("offsets 3..6 of in-0 are missing (tried)")
    assert warnings.of_savepoint(with_hole(HOLE), with_hole(HOLE)) == ()
    later = Gap(start=8, end=9, reason="again")
    (told,) = warnings.of_savepoint(with_hole(HOLE, later), with_hole(HOLE))
    assert told.startswith("offsets 8..8 of in-0")
    assert warnings.of_restore(with_hole(HOLE)) == (), "inputs stay where they are"


@pytest.mark.parametrize(("offset", "told"), [(4, True), (5, False), (6, False), (None, False)])
def test_input_that_the_application_was_too_late_for(offset: int | None, told: bool) -> None:
    part = replace(image((segment(5, 10, [9]),), start=5), committed=None if offset is None else committed(offset))
    found = warnings.of_savepoint(manifest_of(topic((part,), name="in", role=TopicRole.INPUT)), None)
    assert bool(found) == told
    assert not told or "offsets 4..4 of in-0 were deleted before the application read them" in found[0]


def file_at(stamp: int) -> SegmentFile:
    found = segment(0, 10, [0]).file
    assert found is not None
    return replace(found, min_timestamp=stamp)


def of_stamp(stamp: int, role: TopicRole) -> TopicImage:
    part = image((replace(segment(0, 10, [0]), file=file_at(stamp)),))
    return topic((replace(part, committed=None),), role=role)


@pytest.mark.parametrize("stamp", [-(2**63), -1, 0, 1])
def test_no_time_of_a_record_is_a_reason_to_warn(stamp: int) -> None:
    assert warnings.of_savepoint(manifest_of(of_stamp(stamp, TopicRole.CHANGELOG)), None) == ()


@pytest.mark.parametrize(("role", "told"), [(TopicRole.CHANGELOG, True), (TopicRole.REPARTITION, True), (TopicRole.INPUT, False)])
def test_the_broker_s_time_on_an_internal_topic_is_told(role: TopicRole, told: bool) -> None:
    part = replace(image((segment(0, 10, [0]),)), committed=None)
    found = manifest_of(replace(topic((part,), role=role), config={TIMESTAMP_TYPE: LOG_APPEND}))
    assert [("LogAppendTime" in text, "not guaranteed to be exact" in text) for text in warnings.of_savepoint(found, None)] == [
        (True, True)
    ] * told
    by_brokers = replace(
        found.topics[0], config={}, in_force={TIMESTAMP_TYPE: InForce(value=LOG_APPEND, source=SettingSource.STATIC_BROKER)}
    )
    assert len(warnings.of_savepoint(manifest_of(by_brokers), None)) == told, "whoever has set it"


def test_schema_ids_are_told_to_stay_as_they_are() -> None:
    part = replace(image(()), committed=None)
    found = manifest_of(topic((part,), name="_schemas", role=TopicRole.GLOBAL))
    (told,) = warnings.of_savepoint(found, None)
    assert told.startswith("_schemas is among the topics: schema ids in records are not translated")
    assert warnings.registry(found, ()) == (told,)
    assert [text.split(" look")[0] for text in warnings.registry(manifest_of(), ["b", "a"])] == ["values of a, b"]


def framed(schema: int, payload: bytes = b"avro!") -> bytes:
    return b"\0" + schema.to_bytes(4) + payload


def buffered(at: int, name: bytes = b"orders", *, offset: int = 12) -> bytes:
    """The beginning of a value of suppress: the context of the record, then its headers and values."""
    context = at.to_bytes(8) + offset.to_bytes(8) + len(name).to_bytes(4) + name
    return context + (3).to_bytes(4) + (0).to_bytes(4) + b"\xff\xff\xff\xff\0\0\0\5totalled"


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ([buffered(1_795_224_225_000), buffered(1_795_224_299_000, offset=0)], False),
        ([buffered(1_795_224_225_000).replace(b"\0\0\0\6orders", b"\xff\xff\xff\xff")], False),
        ([buffered(1_795_224_225_000), framed(7)], False),
        ([buffered(1_795_224_225_000, b"not a topic")], True),
        ([buffered(1_795_224_225_000)[:22]], True),
        ([framed(107_004, (12).to_bytes(11) + b"\0\0\0")], True),
        ([framed(1)], True),
        ([framed(7), framed(12, b"")[:5] + b"xy"], True),
        ([framed(100_000, b"x" * 500)] * 3, True),
        ([], False),
        ([b""], False),
        ([b'{"count": 1}'], False),
        ([framed(1), b'{"count": 1}'], False),
        ([framed(0)], False),
        ([framed(1)[:5]], False),
        ([(5).to_bytes(8), (2**33).to_bytes(8)], False),
        ([(1_795_224_225_000).to_bytes(8)] * 4, False),
        ([b"\0" * 20], False),
    ],
)
def test_a_registry_s_values_are_told_from_others(values: list[bytes], seen: bool) -> None:
    assert warnings.has_schema_ids(values) == seen


HOUR, DAY = 3_600_000, 86_400_000
WINDOWED = {"cleanup.policy": "compact,delete", "retention.ms": str(HOUR + DAY)}


@pytest.mark.parametrize("store", [StoreKind.WINDOW, StoreKind.SESSION, StoreKind.UNKNOWN, None])
def test_records_of_a_windowed_store_that_are_older_than_its_retention_are_left_out(store: StoreKind | None) -> None:
    windowed = replace(topic(()), store=store, config=WINDOWED)
    assert warnings.restored_by_time(windowed, oldest=HOUR, last=2 * HOUR + 1)
    assert not warnings.restored_by_time(windowed, oldest=HOUR, last=2 * HOUR)
    for unknown in ({}, {"retention.ms": "-1"}, {"retention.ms": "9" * 5_000}, {"retention.ms": "long"}):
        assert warnings.restored_by_time(
            replace(windowed, config={"cleanup.policy": "compact,delete", **unknown}), oldest=HOUR, last=HOUR + 1
        )


@pytest.mark.parametrize("store", [one for one in StoreKind if one not in (StoreKind.WINDOW, StoreKind.SESSION, StoreKind.UNKNOWN)])
def test_other_stores_are_restored_whole(store: StoreKind) -> None:
    assert not warnings.restored_by_time(replace(topic(()), store=store, config=WINDOWED), oldest=0, last=9 * DAY)


def test_neither_an_input_nor_a_changelog_that_is_only_compacted_is_restored_by_time() -> None:
    assert not warnings.restored_by_time(replace(topic((), role=TopicRole.INPUT), store=None, config=WINDOWED), oldest=0, last=9 * DAY)
    assert not warnings.restored_by_time(replace(topic(()), store=None, config={"cleanup.policy": "compact"}), oldest=0, last=9 * DAY)


def test_windows_that_begin_after_their_records_are_told() -> None:
    # Those of the DSL begin with a record or before it; a sliding one a millisecond after it.
    assert [*warnings.windows_ahead({"a": [(5, 5), (3, 9), (10, 9)], "b": []})] == []
    (told,) = warnings.windows_ahead({"a": [(5, 5)], "b": [(9, 9), (9_002, 2)], "c": [(4_000, 0)]})
    assert told.startswith("windows of b, c begin up to 9 seconds after the records that wrote them.")
