"""Where a rebuild begins in its inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.logs import Logs
from streams_recovery.core.offsets.strategies import OffsetStrategy, parse
from streams_recovery.core.restore.rebuild import RebuildStart, rebuild_start

ORDERS, MORE = TopicPartition("orders", 0), TopicPartition("orders", 1)
LOGS = Logs(starts={ORDERS: 0, MORE: 0}, stable={ORDERS: 40, MORE: 7}, ends={ORDERS: 42, MORE: 7}, at_time={ORDERS: 12, MORE: None})
PURGED = replace(LOGS, starts={ORDERS: 5, MORE: 0})


def strategy(text: str) -> OffsetStrategy:
    return parse(text, group="me", read=lambda _: b"")


def begun(
    text: str,
    logs: Logs = LOGS,
    *,
    committed: dict[TopicPartition, int] | None = None,
    gap: bool = False,
    own: tuple[str, ...] = (),
    archived: dict[TopicPartition, int] | None = None,
) -> RebuildStart:
    known = {ORDERS: 20, MORE: 3} if committed is None else committed
    return rebuild_start(logs, strategy(text), known, written_by_application=own, accept_gap=gap, archived=archived)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", [0, 0]),
        ("latest", [40, 7]),
        ("timestamp:2026-11-21T12:00:00Z", [12, 7]),
        ("duration:P1D", [12, 7]),
        ("shift:-4", [16, 0]),
        ("shift:100", [40, 7]),
        ("specific:orders:0=9,orders:1=1", [9, 1]),
    ],
)
def test_each_strategy_begins_where_it_says_and_never_with_metadata(text: str, expected: list[int]) -> None:
    found = begun(text)
    assert [item.wanted.offset for item in found.offsets] == expected
    assert [item.tp for item in found.offsets] == [ORDERS, MORE]
    assert {item.wanted.metadata for item in found.offsets} == {""}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exact", "exact offsets belong to a savepoint's state"),
        ("specific:orders:0=9", "no offset is named for orders-1"),
        ("specific:orders:0=9,orders:1=1,other:0=0", "other-0 is no input"),
        ("specific:orders:0=43,orders:1=1", r"orders-0: offset 43 is outside \[0, 42\]"),
    ],
)
def test_what_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        begun(text)


def test_a_shift_counts_from_what_is_committed() -> None:
    with pytest.raises(Refused) as caught:
        begun("shift:-1", committed={ORDERS: 20})
    assert caught.value.facts == {"strategy": "shift:-1", "partitions": ["orders-1"]}


@pytest.mark.fault("F54")
def test_input_that_is_gone_stops_a_rebuild_from_the_start_unless_that_is_accepted() -> None:
    with pytest.raises(Refused) as caught:
        begun("earliest", PURGED)
    assert caught.value.facts == {"gap": {"orders-0": 5}}
    found = begun("earliest", PURGED, gap=True)
    assert [item.wanted.offset for item in found.offsets] == [5, 0]
    assert "input that the state may need is gone: orders-0 starts at 5" in found.warnings
    assert begun("latest", PURGED).offsets, "somebody who begins elsewhere has said that the beginning is not needed"


@pytest.mark.fault("F54")
def test_an_archive_begins_where_its_records_do_and_not_where_its_new_log_does() -> None:
    found = begun("earliest", archived={ORDERS: 0, MORE: 0})
    assert ([item.wanted.offset for item in found.offsets], found.warnings) == ([0, 0], ())
    with pytest.raises(Refused) as caught:
        begun("earliest", archived={ORDERS: 0, MORE: 3})
    assert caught.value.facts == {"gap": {"orders-1": 3}}
    found = begun("earliest", archived={MORE: 3}, gap=True)
    assert [item.wanted.offset for item in found.offsets] == [0, 0], "of the new log"
    assert "input that the state may need is gone: orders-1 starts at 3" in found.warnings


@pytest.mark.parametrize("text", ["latest", "timestamp:2026-11-21T12:00:00Z", "shift:-1", "specific:orders:0=9,orders:1=1"])
def test_what_is_made_from_an_archive_is_begun_at_its_start(text: str) -> None:
    with pytest.raises(Refused) as caught:
        begun(text, archived={MORE: 0})
    assert caught.value.facts["archived"] == ["orders-1"]
    assert begun(text, archived={}).offsets


def test_what_the_application_writes_itself_begins_at_the_end_whatever_is_asked() -> None:
    logs = Logs(starts={ORDERS: 0, MORE: 3}, stable=LOGS.stable, ends=LOGS.ends, at_time={})
    found = begun("earliest", logs, own=("orders",))
    assert [item.wanted.offset for item in found.offsets] == [40, 7]
    assert any("read and written by the application itself" in warning for warning in found.warnings)


def test_what_is_left_out_is_told_with_its_size() -> None:
    assert any("up to 47 earlier input records" in warning for warning in begun("latest").warnings)
    assert begun("earliest").warnings == ()


@given(
    st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5)), min_size=1),
    st.sampled_from(["earliest", "latest", "shift:-7", "shift:7"]),
)
def test_offsets_are_always_inside_the_logs_and_complete(shape: dict[int, tuple[int, int, int]], text: str) -> None:
    tps = {TopicPartition("orders", number): lengths for number, lengths in shape.items()}
    logs = Logs(
        starts={tp: start for tp, (start, _, _) in tps.items()},
        stable={tp: start + length for tp, (start, length, _) in tps.items()},
        ends={tp: start + length + open_ for tp, (start, length, open_) in tps.items()},
        at_time={},
    )
    committed = {tp: start + length // 2 for tp, (start, length, _) in tps.items()}
    found = rebuild_start(logs, strategy(text), committed, written_by_application=(), accept_gap=True)
    assert [item.tp for item in found.offsets] == sorted(tps)
    assert all(logs.starts[item.tp] <= item.wanted.offset <= logs.stable[item.tp] for item in found.offsets)
