"""What is written about partitions in values and offsets."""

from __future__ import annotations

import base64
import struct

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.rescale.placement import RescaledTopic
from streams_recovery.core.rescale.values import (
    PrimarySide,
    Unreadable,
    buffered_moved,
    merged_metadata,
    primary_sides,
    stream_time,
    without_partition,
    wrapper_moved,
)
from streams_recovery.core.state.edit import default_partition

SIDE = PrimarySide(old=4, new=12)


def wrapper(key: bytes, partition: int, *, version: int = 1, hashed: bool = True) -> bytes:
    head = bytes([version if hashed else version | 0x80, 2]) + (b"h" * 16 if hashed else b"")
    return head + key + (struct.pack(">i", partition) if version else b"")


def buffered(partition: int, topic: bytes = b"input") -> bytes:
    return struct.pack(">qqi", 1000, 5, len(topic)) + topic + struct.pack(">ii", partition, 0) + b"the rest"


@pytest.mark.parametrize("hashed", [True, False])
def test_a_subscription_names_where_its_primary_key_lies_now(hashed: bool) -> None:  # a case
    before, after = (wrapper(b"pk", default_partition(b"pk", number), hashed=hashed) for number in (4, 12))
    assert wrapper_moved(before, SIDE) == after != before
    assert without_partition(before, buffered=False) == without_partition(after, buffered=False) == before[:-4]


def test_a_subscription_of_the_first_version_names_none() -> None:
    value = wrapper(b"pk", 0, version=0)
    assert wrapper_moved(value, SIDE) == without_partition(value, buffered=False) == value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (wrapper(b"pk", (default_partition(b"pk", 4) + 1) % 4), "its primary key lies in"),
        (wrapper(b"pk", 0, version=2), "of a version up to 1"),
        (b"\x01\x02" + b"h" * 16, "of a version up to 1"),
        (b"", "is no subscription"),
    ],
)
def test_what_is_no_such_subscription_is_refused(value: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        wrapper_moved(value, SIDE)


def test_a_buffered_record_names_where_it_lies_now() -> None:
    assert buffered_moved(buffered(3), 3, 11) == buffered(11)
    assert buffered_moved(buffered(-1), 3, 11) == buffered(-1)
    assert without_partition(buffered(3), buffered=True) == without_partition(buffered(11), buffered=True)
    for value, why in ((buffered(2), "from partition 2"), (b"short", "no record of a buffer"), (buffered(3)[:25], "no record of a buffer")):
        with pytest.raises(Unreadable, match=why):
            buffered_moved(value, 3, 11)


def test_the_primary_side_is_found_by_the_names() -> None:
    auto, named = "app-KTABLE-FK-JOIN-SUBSCRIPTION-", "app-priced-subscription-"
    topics = {
        f"{auto}REGISTRATION-0000000006-topic": 3,
        f"{auto}STATE-STORE-0000000010-changelog": 3,
        f"{auto}RESPONSE-0000000014-topic": 4,
        f"{auto}REGISTRATION-0000000026-topic": 3,
        f"{auto}RESPONSE-0000000034-topic": 5,
        f"{named}registration-topic": 3,
        f"{named}store-changelog": 3,
        f"{named}response-topic": 6,
        "app-totals-changelog": 4,
    }
    rescaled = [RescaledTopic(name=f"{auto}RESPONSE-0000000014-topic", old=4, new=12)]
    assert primary_sides(topics, rescaled) == {
        f"{auto}REGISTRATION-0000000006-topic": SIDE,
        f"{auto}STATE-STORE-0000000010-changelog": SIDE,
        f"{auto}REGISTRATION-0000000026-topic": PrimarySide(old=5, new=5),
        f"{named}registration-topic": PrimarySide(old=6, new=6),
        f"{named}store-changelog": PrimarySide(old=6, new=6),
    }


def metadata(time: int, emitted: dict[str, int] | None = None, *, version: int = 2) -> str:
    body = b"".join(struct.pack(">i", len(name)) + name.encode() + struct.pack(">q", at) for name, at in (emitted or {}).items())
    return base64.b64encode(struct.pack(">Bq", version, time) + (struct.pack(">i", len(emitted)) + body if emitted else b"")).decode()


def test_of_several_offsets_the_latest_stream_time_counts() -> None:
    assert merged_metadata([metadata(5), metadata(9), metadata(7)]) == metadata(9)
    assert merged_metadata([metadata(5), ""]) == metadata(5)
    assert [stream_time(one) for one in (metadata(9), metadata(-1), "", "faust")] == [9, None, None, None]


def test_of_several_offsets_windows_are_emitted_again_rather_than_not_at_all() -> None:
    assert merged_metadata([metadata(9, {"a": 8, "b": 3}), metadata(7, {"a": 6, "b": 4})]) == metadata(9, {"a": 6, "b": 3})
    # One that has seen records and emitted nothing may have windows to emit; one without records has none.
    assert merged_metadata([metadata(9, {"a": 8}), metadata(7)]) == metadata(9)
    assert merged_metadata([metadata(9, {"a": 8}), metadata(-1)]) == metadata(9, {"a": 8})
    assert merged_metadata([metadata(9, {"a": 8}), metadata(7, version=1)]) == metadata(9)


def test_metadata_that_is_not_of_kafka_streams_is_kept_where_all_have_it() -> None:
    assert merged_metadata(["mine", "mine"]) == "mine"
    assert merged_metadata([]) == ""
    with pytest.raises(Refused, match="cannot be joined"):
        merged_metadata(["mine", metadata(5)])


def test_metadata_that_ends_early_has_emitted_nothing() -> None:
    cut = base64.b64encode(base64.b64decode(metadata(9, {"a": 8}))[:-3]).decode()
    assert merged_metadata([cut, metadata(7, {"a": 6})]) == metadata(9)


@pytest.mark.timeout(5)
@pytest.mark.parametrize("length", [-12, -13, -1, 1 << 30])
def test_processors_whose_names_have_no_length_are_taken_for_nothing(length: int) -> None:
    """Going on from there would be on the spot, as often as the bytes say that there are processors."""
    found = struct.pack(">Bqii", 2, 9, (1 << 31) - 1, length) + bytes(100)
    assert merged_metadata([base64.b64encode(found).decode(), metadata(7, {"a": 6})]) == metadata(9)
