"""Where a rebuild begins in its inputs.

Inputs that a restore in place relies on: the same records as at the savepoint, and what compaction may have taken of a table.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition, truncation
from streams_recovery.core.offsets.strategies import EXACT, STRATEGIES, Logs, OffsetStrategy, parse
from streams_recovery.core.restore.rebuild import (
    KeptInput,
    RebuildStart,
    check_all_go,
    check_same_records,
    outgrown_tables,
    rebuild_start,
)
from tests.support.examples.savepoints import committed, image

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
    topics: tuple[str, ...] = (),
    archived: dict[TopicPartition, int] | None = None,
) -> RebuildStart:
    known = {ORDERS: 20, MORE: 3} if committed is None else committed
    return rebuild_start(logs, strategy(text), known, written_by_application=own, accept_gap=gap, topics=topics, archived=archived)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", [0, 0]),
        ("latest", [40, 7]),
        ("timestamp:2026-11-21T12:00:00Z", [12, 7]),
        ("duration:P1D", [12, 7]),
        ("shift:-4", [16, 0]),
        ("shift:100", [40, 7]),
        ("offset:9", [9, 7]),
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
        ("specific:orders:0=9,orders:1=1,other:0=0", "other-0 is no input that begins anew"),
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


def test_where_the_log_limits_an_offset_is_told() -> None:
    assert "offset 9 is limited to the start and end of the logs: orders-1" in begun("offset:9").warnings
    assert any("the shift is limited" in warning for warning in begun("shift:-4").warnings)
    assert not any("limited" in warning for warning in begun("offset:7").warnings)


RETURNS = TopicPartition("returns", 0)
TWO = Logs(
    starts={ORDERS: 0, MORE: 0, RETURNS: 2},
    stable={ORDERS: 40, MORE: 7, RETURNS: 9},
    ends={ORDERS: 42, MORE: 7, RETURNS: 9},
    at_time=dict.fromkeys((ORDERS, MORE, RETURNS)),
)
KNOWN = {ORDERS: 20, MORE: 3, RETURNS: 5}


def test_an_input_that_is_left_out_keeps_its_offset_and_the_plan_says_what_the_state_lacks() -> None:
    found = begun("earliest", TWO, committed=KNOWN, topics=("orders",))
    assert {item.tp: item.wanted.offset for item in found.offsets} == {ORDERS: 0, MORE: 0}
    assert (found.kept, found.agree) == ((RETURNS,), False)
    assert "the new state lacks up to 5 records before these: returns-0" in found.warnings[0]
    assert begun("earliest", TWO, committed={**KNOWN, RETURNS: 2}, topics=("returns",), gap=True).kept == (ORDERS, MORE)


def test_nothing_lacks_before_the_first_offset_and_what_nobody_committed_begins_as_always() -> None:
    never = begun("earliest", replace(TWO, starts=dict.fromkeys(KNOWN, 0)), committed={**KNOWN, RETURNS: 0}, topics=("orders",))
    assert (never.agree, never.warnings) == (True, ())
    nowhere = begun("earliest", TWO, committed={ORDERS: 20}, topics=("orders",))
    assert (nowhere.agree, nowhere.kept) == (True, (RETURNS,))
    assert nowhere.warnings == ("nothing is committed on these, so they begin by auto.offset.reset: returns-0",)


@pytest.mark.parametrize("text", ["earliest", "latest", "shift:-1", "offset:3"])
def test_all_inputs_by_their_names_are_all_inputs(text: str) -> None:
    everything = begun(text, TWO, committed=KNOWN, gap=True)
    assert begun(text, TWO, committed=KNOWN, topics=("returns", "orders"), gap=True) == everything
    assert (everything.kept, everything.agree) == ((), True)


def test_input_that_is_gone_matters_only_where_it_is_read() -> None:
    with pytest.raises(Refused) as caught:
        begun("earliest", TWO, committed=KNOWN, topics=("returns",))
    assert caught.value.facts == {"gap": {"returns-0": 2}}
    assert begun("earliest", TWO, committed=KNOWN, topics=("orders",)).offsets


@pytest.mark.parametrize("offset", [1, 10])
def test_an_offset_that_is_kept_must_be_in_its_log(offset: int) -> None:
    with pytest.raises(Refused, match=rf"returns-0: offset {offset} is outside \[2, 9\].*begin anew too"):
        begun("earliest", TWO, committed={**KNOWN, RETURNS: offset}, topics=("orders",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("specific:returns:0=3,orders:0=1,orders:1=1", "returns-0 is no input that begins anew"),
        ("specific:orders:0=1", "no offset is named for orders-1"),
    ],
)
def test_offsets_are_named_for_what_begins_anew_and_nothing_else(text: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        begun(text, TWO, committed=KNOWN, topics=("orders",))
    assert begun("specific:orders:0=1,orders:1=1", TWO, committed=KNOWN, topics=("orders",)).kept == (RETURNS,)


def test_only_what_begins_anew_needs_an_offset_to_shift_from() -> None:
    assert begun("shift:-1", TWO, committed={ORDERS: 20, MORE: 3}, topics=("orders",)).offsets
    with pytest.raises(Refused, match="no committed offset to shift from: returns-0"):
        begun("shift:-1", TWO, committed={ORDERS: 20, MORE: 3}, topics=("returns",))


@pytest.mark.parametrize(
    ("topics", "archived", "reason", "facts"),
    [
        (("orders", "Orders"), {}, "these are no inputs: Orders; the inputs are: orders, returns", {"topics": ["Orders"]}),
        (("orders",), {RETURNS: 0}, "have no offset to keep", {"partitions": ["returns-0"]}),
    ],
    ids=["no input", "made, so that it has no offset to keep"],
)
def test_topics_that_cannot_begin_anew_are_refused(
    topics: tuple[str, ...], archived: dict[TopicPartition, int], reason: str, facts: dict[str, object]
) -> None:
    with pytest.raises(Refused, match=reason) as caught:
        begun("earliest", TWO, committed=KNOWN, topics=topics, archived=archived)
    assert caught.value.facts == facts


def test_what_the_application_writes_itself_keeps_its_offset_when_it_is_left_out_and_else_begins_at_the_end() -> None:
    found = begun("earliest", TWO, committed=KNOWN, topics=("orders",), own=("returns",))
    assert found.kept == (RETURNS,)
    found = begun("earliest", TWO, committed=KNOWN, topics=("returns",), own=("returns",))
    assert [(item.tp, item.wanted.offset) for item in found.offsets] == [(RETURNS, 9)]


INTERNAL = ("orders-a-changelog", "orders-b-repartition")


def test_all_internal_topics_go_or_nothing_does() -> None:
    check_all_go("orders", INTERNAL, ())
    check_all_go("orders", INTERNAL, INTERNAL[::-1])
    with pytest.raises(Refused, match="would stay: orders-b-repartition") as caught:
        check_all_go("orders", INTERNAL, INTERNAL[:1])
    assert caught.value.facts == {"topics": ["orders-b-repartition"]}
    with pytest.raises(Refused, match="no internal topics of orders: orders-eu-a-changelog") as caught:
        check_all_go("orders", INTERNAL, (*INTERNAL, "orders-eu-a-changelog"))
    assert caught.value.facts == {"topics": ["orders-eu-a-changelog"]}


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdefgh")))
def test_internal_topics_are_all_named_or_none(internal: set[str], named: set[str]) -> None:
    if not named or named == internal:
        check_all_go("x", internal, named)
        return
    with pytest.raises(Refused) as caught:
        check_all_go("x", internal, named)
    assert set(caught.value.facts["topics"]) == (named - internal or internal - named)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 9), st.integers(0, 20), st.integers(0, 20)), min_size=1),
    st.sets(st.sampled_from("abcd")),
    st.sampled_from(["earliest", "latest", "shift:-7", "offset:5"]),
)
def test_each_input_begins_anew_or_keeps_its_offset_and_never_both(
    shape: dict[str, tuple[int, int, int]], wanted: set[str], text: str
) -> None:
    tps = {TopicPartition(topic, 0): lengths for topic, lengths in shape.items()}
    starts = {tp: start for tp, (start, _, _) in tps.items()}
    ends = {tp: start + length for tp, (start, length, _) in tps.items()}
    committed = {tp: min(start + read, ends[tp]) for tp, (start, _, read) in tps.items()}
    topics = wanted & shape.keys()
    found = rebuild_start(
        Logs(starts=starts, stable=ends, ends=ends, at_time={}),
        strategy(text),
        committed,
        written_by_application=(),
        accept_gap=True,
        topics=topics,
    )
    begins = [item.tp for item in found.offsets]
    assert sorted([*begins, *found.kept]) == sorted(tps)
    assert {tp.topic for tp in begins} == (topics or set(shape))
    assert found.agree == all(committed[tp] == 0 for tp in found.kept)
    assert found.agree != any("the new state lacks" in warning for warning in found.warnings)


@given(
    st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5)), min_size=1),
    st.sampled_from(["earliest", "latest", "shift:-7", "shift:7", "offset:30"]),
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


TP = TopicPartition("orders", 0)
# At the savepoint: ten records, written under leader epochs up to 3, of which five were read.
KEPT = KeptInput(tp=TP, image=replace(image((), epoch=3), committed=committed(5)), leader_epoch=4, epoch_end=10, end=30, compacted=False)


@pytest.mark.fault("F36")
@given(
    history=st.lists(st.tuples(st.integers(1, 10), st.integers(0, 10)), min_size=1, max_size=5),
    seen_at=st.integers(0, 4),
    back=st.integers(0, 10),
)
def test_other_records_are_seen_wherever_the_log_ends(history: list[tuple[int, int]], seen_at: int, back: int) -> None:
    """Each step: a new leader that lost some records of the end, and what is written under it. The broker's answer is worked out from the log itself."""
    log: list[tuple[int, int]] = []  # (leader epoch, number of the write)
    seen: list[tuple[int, int]] = []
    seen_epoch, writes = 0, 0
    for epoch, (written, lost) in enumerate(history):
        log = log[: max(0, len(log) - lost)] + [(epoch, writes + number) for number in range(written)]
        writes += written
        if epoch == min(seen_at, len(history) - 1):
            seen, seen_epoch = list(log), epoch
    upto = max(0, len(seen) - back)
    epoch_end = sum(1 for written_under, _ in log if written_under <= seen_epoch)
    found = truncation(seen=seen_epoch, upto=upto, now=len(history) - 1, epoch_end=epoch_end)
    assert (found is None) == (log[:upto] == seen[:upto])


@pytest.mark.fault("F36")
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (replace(KEPT, epoch_end=4), "orders-0: its records of leader epoch 3 end at 4, before offset 5"),
        (replace(KEPT, leader_epoch=2), "orders-0: its leader epoch went back from 3 to 2"),
        (replace(KEPT, past_end=True), "orders-0: at the savepoint its log had lost records below the committed offset 5"),
    ],
)
def test_offsets_among_other_records_are_refused_unless_they_come_from_the_log(changed: KeptInput, why: str) -> None:
    for strategy in STRATEGIES:
        wanted = parse(strategy.FORM, group="", read=lambda _: b"orders,0,4\n")
        if strategy.FROM_LOG:
            (told,) = check_same_records([changed], wanted)
            assert why in told
        else:
            with pytest.raises(Refused, match=rf"{why}.*\(earliest, latest, timestamp:\.\.\., "):
                check_same_records([changed], wanted)


@pytest.mark.parametrize(
    "same",
    [
        KEPT,
        replace(KEPT, epoch_end=5),
        replace(KEPT, epoch_end=None),
        replace(KEPT, leader_epoch=None),
        replace(KEPT, image=replace(KEPT.image, leader_epoch=None), epoch_end=0, leader_epoch=0),
        replace(KEPT, image=replace(KEPT.image, committed=None), epoch_end=0),
    ],
)
def test_an_input_of_which_nothing_that_was_read_is_lost_passes(same: KeptInput) -> None:
    assert check_same_records([same], EXACT) == ()


@pytest.mark.fault("F48")
def test_a_compacted_input_that_went_on_is_told_with_its_stores() -> None:
    table = replace(KEPT, compacted=True)
    (told,) = outgrown_tables([table, replace(table, tp=TopicPartition("orders", 1), end=6)], {"orders": ["latest", "first"]})
    assert "orders is compacted and has changed since the savepoint (orders-0 offsets 5 to 29, orders-1 offsets 5 to 5)" in told
    assert "Store first, latest, which Kafka Streams restores from this topic, lacks such a key" in told
    (guessed,) = outgrown_tables([table], {})
    assert "A table that Kafka Streams restores from this topic (topology.optimization) in place of a changelog lacks" in guessed


def test_an_input_that_compaction_took_nothing_of_is_not_told() -> None:
    table = replace(KEPT, compacted=True)
    unread = replace(table, image=replace(table.image, committed=None))
    assert outgrown_tables([KEPT, replace(table, end=5), unread], {}) == ()
