"""What belongs to a cut of named transactions, one rule after the other, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from streams_recovery.core.errors import OffsetsUnstable
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.named_transactions.cut import (
    EpochsStay,
    GroupElsewhere,
    LookAgain,
    NamedCut,
    NothingCommitted,
    OffsetsByHand,
    OutsideTransactions,
    RecordsRemoved,
    cut_at_names,
)
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut
from streams_recovery.core.named_transactions.readings import GroupRecord, LogTail, Name, NamedBatch, NamedReadings

IN, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)
STATE, BETWEEN, OUT = TopicPartition("app-store-changelog", 0), TopicPartition("app-key-repartition", 0), TopicPartition("out", 0)
MEMBERS = "members"


def sent(producer: int, epoch: int, offset: int, tp: TopicPartition = IN) -> tuple[object, ...]:
    return (producer, epoch, tp, offset)


def commit(producer: int, epoch: int) -> tuple[object, ...]:
    """The marker that commits the transaction of this epoch."""
    return (producer, epoch + 1, True)


def abort(producer: int, epoch: int) -> tuple[object, ...]:
    return (producer, epoch + 1, False)


def known(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata)


def group(*events: object) -> tuple[GroupRecord, ...]:
    """The group's records, one an offset."""
    found = []
    for at, event in enumerate(events):
        match event:
            case (producer, epoch, bool() as committed):
                found.append(GroupRecord(at, producer, epoch, transactional=True, marker=committed))
            case (producer, epoch, tp, None):
                found.append(GroupRecord(at, producer, epoch, producer >= 0, tp=tp))
            case (producer, epoch, tp, offset):
                found.append(GroupRecord(at, producer, epoch, producer >= 0, tp=tp, committed=known(offset, f"{producer}/{epoch}")))
            case _:
                found.append(GroupRecord(at, -1, -1, transactional=False))
    return tuple(found)


def log(*events: tuple[object, ...], before: int | None = None, after: int | None = None, start: int = 0, first: int = 0) -> LogTail:
    """A log with a record of (producer, epoch), or a marker, at each offset. It ended at ``before`` and ``after``: at its end, if nothing else is said."""
    batches = [
        NamedBatch(at, at, event[0], event[1], event[0] >= 0, event[2] if len(event) > 2 else None, 1)  # type: ignore[arg-type, operator, misc]
        for at, event in enumerate(events, start)
    ]
    end = start + len(batches)
    pick = end if before is None else before
    return LogTail(
        start=start, before=pick, after=end if after is None else after, ends=end, stable=end, first=first, batches=tuple(batches)
    )


def left_out(producer: int, epoch: int, first: int, last: int, *, aborted: bool = False) -> Excluded:
    return Excluded(producer_id=producer, epoch=epoch, first=first, last=last, records=last - first + 1, aborted=aborted)


def look(events: tuple[GroupRecord, ...], end: int | None = None, settled: int = 0, **logs: LogTail) -> NamedReadings:
    names = {"state": STATE, "between": BETWEEN, "out": OUT}
    return NamedReadings(
        settled=settled,
        end=len(events) if end is None else end,
        captured_at=0,
        known={IN: known(1), OTHER: known(1)},
        later={},
        group=events,
        logs={names[name]: tail for name, tail in logs.items()},
    )


def cut(readings: NamedReadings) -> NamedCut:
    return cut_at_names(readings, [STATE], [OUT])


def test_a_cut_has_the_transactions_below_the_end_and_leaves_others_out_by_name() -> None:
    events = group(sent(1, 5, 10), sent(2, 0, 20, OTHER), commit(1, 5), commit(2, 0), sent(1, 6, 11))
    between = log((1, 5), (2, 0), (1, 5), (2, 0), (1, 5), commit(1, 5), commit(2, 0), (1, 6), commit(1, 6))
    readings = look(events, 3, state=log((1, 5), commit(1, 5), (1, 6), commit(1, 6), after=2), between=between)
    found = cut(readings)
    assert found.last == {1: 5, 2: -1}
    assert found.committed == {IN: known(10, "1/5"), OTHER: known(1)}
    assert found.logs[STATE] == NamedLogCut(start=0, end=1, records=1, excluded=())
    assert found.logs[BETWEEN] == NamedLogCut(start=0, end=5, records=3, excluded=(left_out(2, 0, 1, 1), left_out(2, 0, 3, 3)))
    assert found.taken_back == ()
    assert cut(replace(readings, end=4)).last == {1: 5, 2: 0}
    assert cut(replace(readings, end=4)).group_end == 4


def test_what_was_committed_meanwhile_must_have_been_seen() -> None:
    events = group(sent(1, 5, 10), commit(1, 5))
    readings = look(events, state=log())
    assert cut(replace(readings, later={IN: known(10), OTHER: known(1)})).committed[IN].offset == 10
    with pytest.raises(GroupElsewhere) as caught:
        cut(replace(readings, later={IN: known(10), OTHER: known(2)}))
    assert caught.value.facts["tp"] == OTHER


def test_an_aborted_transaction_is_left_out_and_holds_nothing_back() -> None:
    events = group(sent(1, 5, 10), abort(1, 5), sent(1, 6, 10), commit(1, 6))
    found = cut(look(events, state=log((1, 5), abort(1, 5), (1, 6), commit(1, 6))))
    assert found.logs[STATE] == NamedLogCut(start=0, end=3, records=1, excluded=(left_out(1, 5, 0, 0, aborted=True),))
    assert (found.last, found.committed[IN].offset) == ({1: 6}, 10)


def test_a_transaction_whose_abort_the_group_has_not_heard_of_holds_nothing_back() -> None:
    events = group(sent(1, 5, 10), MEMBERS, sent(2, 0, 11), commit(2, 0))
    found = cut(look(events, state=log((1, 5), abort(1, 5), (2, 0), commit(2, 0))))
    assert (found.last[2], found.committed[IN].offset) == (0, 11)


def test_the_later_record_of_an_offset_counts_not_the_later_marker() -> None:
    events = group(sent(1, 5, 10), sent(2, 0, 12), commit(2, 0), commit(1, 5))
    assert cut(look(events, state=log())).committed[IN] == known(12, "2/0")


def test_what_has_read_a_record_that_is_not_in_the_cut_is_taken_back_with_all_behind_it() -> None:
    first = (sent(2, 0, 0, BETWEEN), sent(2, 0, 1, OTHER), commit(2, 0))
    late = (sent(1, 5, 10), sent(2, 1, 1, BETWEEN), commit(2, 1), sent(2, 2, 7, OTHER), commit(2, 2), commit(1, 5))
    between, state = log((1, 5), commit(1, 5)), log((2, 0), commit(2, 0), (2, 1), commit(2, 1))
    found = cut(look(group(*first, *late), 8, between=between, state=state))
    assert (found.last, found.taken_back) == ({1: 4, 2: 0}, (Name(2, 1), Name(2, 2)))
    assert (found.committed[BETWEEN].offset, found.committed[OTHER].offset, found.logs[STATE].end) == (0, 1, 1)
    assert cut(look(group(*first, *late), 9, between=between, state=state)).last == {1: 5, 2: 2}
    with pytest.raises(LookAgain, match="what was committed before"):
        cut(look(group(*late), 5, between=between, state=state))


def test_what_a_new_owner_has_committed_is_taken_back_with_the_last_transaction_of_the_old_one() -> None:
    """Its own records do not show what it has read in a store."""
    events = group(sent(2, 0, 5, OTHER), commit(2, 0), sent(1, 5, 10), MEMBERS, sent(2, 1, 6, OTHER), commit(2, 1), commit(1, 5))
    kept = look(events, 7, state=log((1, 5), commit(1, 5)))
    assert cut(kept).last == {1: 5, 2: 1}
    found = cut(replace(kept, end=6))
    assert (found.last, found.taken_back, found.committed[OTHER].offset) == ({1: 4, 2: 0}, (Name(2, 1),), 5)
    calm = tuple(one._replace(producer_id=9, epoch=0, transactional=True, marker=True) if one.at == 3 else one for one in events)
    assert cut(replace(kept, end=6, group=calm)).last == {1: 4, 2: 1}, "nobody else took its tasks"


def test_a_producer_whose_epochs_end_may_go_on_as_another_one() -> None:
    events = group(sent(2, 0, 5, OTHER), commit(2, 0), sent(1, 32_766, 10), sent(2, 1, 6, OTHER), commit(2, 1), commit(1, 32_766))
    found = cut(look(events, 5, state=log((1, 32_766), commit(1, 32_766))))
    assert found.last == {1: 32_765, 2: 0}
    early = group(sent(2, 0, 5, OTHER), commit(2, 0), sent(1, 7, 10), sent(2, 1, 6, OTHER), commit(2, 1), commit(1, 7))
    assert cut(look(early, 5, state=log((1, 7), commit(1, 7)))).last == {1: 6, 2: 1}


def test_a_transaction_without_offsets_is_in_the_cut_once_it_was_decided() -> None:
    events = group(sent(1, 5, 10), commit(1, 5))
    state = log((1, 5), commit(1, 5), (1, 6), commit(1, 6), (1, 7), commit(1, 7), before=4, after=4)
    found = cut(look(events, state=state))
    assert (found.last, found.logs[STATE].end) == ({1: 6}, 3)
    assert cut(look(events, state=replace(state, after=6))).last == {1: 7}
    # The next one has sent offsets, and it is not decided below the end: what comes behind it is not either.
    later = group(sent(1, 5, 10), commit(1, 5), sent(1, 6, 11), commit(1, 6))
    assert cut(look(later, 2, state=replace(state, after=6))).last == {1: 5}


def test_an_aborted_transaction_without_offsets_holds_nothing_back() -> None:
    events = group(sent(1, 6, 10), commit(1, 6))
    assert cut(look(events, state=log((1, 5), abort(1, 5), (1, 6), commit(1, 6), before=0, after=0))).last == {1: 6}


def test_a_changelog_has_nothing_behind_a_record_that_is_left_out() -> None:
    events = group(sent(2, 0, 5, OTHER), commit(2, 0), sent(1, 5, 10), commit(1, 5))
    state = log((1, 5), commit(1, 5), (2, 1), commit(2, 1))
    with pytest.raises(LookAgain, match="another owner"):
        cut(look(events, 2, state=state))
    with_offsets = group(sent(2, 0, 5, OTHER), commit(2, 0), sent(1, 5, 10), sent(2, 1, 6, OTHER), commit(2, 1), commit(1, 5))
    assert cut(look(with_offsets, 5, state=state)).last == {1: 4, 2: 0}


def test_a_transaction_without_offsets_that_may_have_read_a_store_of_another_owner_is_looked_at_again() -> None:
    """It is the last one of its producer, and it forwards what it has read: no changelog shows it."""
    events = group(sent(2, 0, 5, OTHER), commit(2, 0), sent(1, 5, 10), MEMBERS, commit(1, 5))
    out = log((2, 1), commit(2, 1), before=0)
    with pytest.raises(LookAgain, match="change their owners"):
        cut(look(events, 3, out=out))
    # It was decided before, and may have read what the other one had written to a changelog, whose marker comes there first.
    with pytest.raises(LookAgain, match="change their owners"):
        cut(look(events, 3, out=replace(out, before=2)))
    assert cut(look(events[:3] + events[4:], 3, out=out)).last == {1: 4, 2: 1}, "no task has changed its owner"
    with pytest.raises(LookAgain, match="change their owners"):
        cut(look(group(sent(2, 0, 5, OTHER), commit(2, 0), MEMBERS), 2, out=out))
    assert cut(look(group(sent(2, 0, 5, OTHER), commit(2, 0), MEMBERS), 3, out=out)).last == {2: 1}


def test_a_transaction_without_offsets_that_was_decided_before_has_not_read_what_came_later_but_what_is_taken_back() -> None:
    first = (sent(2, 0, 0, BETWEEN), commit(2, 0))
    late = (sent(1, 5, 10), sent(2, 1, 1, BETWEEN), commit(2, 1), MEMBERS, commit(1, 5))
    logs = {"between": log((1, 5), commit(1, 5)), "out": log((3, 1), commit(3, 1))}
    assert cut(look(group(*first, *late), 7, **logs)).last == {1: 5, 2: 1, 3: 1}
    with pytest.raises(LookAgain, match="change their owners"):
        cut(look(group(*first, *late), 6, **logs))


def test_a_group_without_committed_offsets_has_no_cut() -> None:
    with pytest.raises(NothingCommitted, match="no committed offsets"):
        cut(replace(look(group(MEMBERS), 1, state=log((1, 5), commit(1, 5))), known={}))


def test_a_transaction_without_offsets_has_not_read_what_its_own_producer_does_later() -> None:
    events = group(sent(1, 5, 9), commit(1, 5), sent(1, 7, 10), MEMBERS, commit(1, 7))
    assert cut(look(events, 4, out=log((1, 6), commit(1, 6), before=0))).last == {1: 6}
    behind = group(sent(1, 7, 10), commit(1, 7), MEMBERS)
    assert cut(look(behind, 2, out=log((1, 6), commit(1, 6), before=0))).last == {1: 7}, "it has a place: before one with offsets"


def test_a_transaction_that_is_left_out_began_after_the_look() -> None:
    events = group(sent(1, 5, 10), commit(1, 5))
    assert cut(look(events, 1, settled=0, state=log((1, 5), commit(1, 5)))).last == {1: 4}
    with pytest.raises(LookAgain, match="began before"):
        cut(look(events, 1, settled=1, state=log((1, 5), commit(1, 5))))


@pytest.mark.parametrize("read", [3, 4, 5, 6])
def test_records_that_were_deleted_since_the_look_began_are_looked_for_again(read: int) -> None:
    """Those that were read too: the transaction that wrote them may not be in the cut."""
    events = group(sent(2, 0, read, BETWEEN), commit(2, 0))
    between = log((1, 1), commit(1, 1), start=4, first=5)
    with pytest.raises(LookAgain, match="deleted"):
        cut(look(events, between=replace(between, batches=between.batches[1:])))
    if read < 4:
        with pytest.raises(LookAgain, match="deleted"):
            cut(look(events, between=replace(between, first=4)))
    else:
        assert cut(look(events, between=replace(between, first=4))).committed[BETWEEN].offset == read
    with pytest.raises(LookAgain, match="deleted"):
        cut(look((), 0, between=between))


def test_a_log_is_not_behind_what_was_read_of_it() -> None:
    """What was read is no part of the cut in it, and where the last record that was read is none of a batch the count begins inside it."""
    events = group(sent(2, 0, 7, BETWEEN), commit(2, 0))
    assert cut(look(events, between=log(start=4))).logs[BETWEEN] == NamedLogCut(start=7, end=7, records=0, excluded=())
    after = log((1, 1), commit(1, 1), start=9)
    whole = after.batches[0]._replace(base=4, records=6)
    between = replace(after, start=4, batches=(whole, after.batches[1]))
    assert cut(look(events, between=between)).logs[BETWEEN] == NamedLogCut(start=7, end=10, records=3, excluded=())
    thinned = replace(between, batches=(whole._replace(records=5), after.batches[1]))
    with pytest.raises(RecordsRemoved, match="lacks records"):
        cut(look(events, between=thinned))


def test_a_hole_in_a_changelog_or_an_output_is_looked_at_again() -> None:
    """Also behind the last record of the cut: it may have been one of the cut, whose key the record behind it has."""
    events = group(sent(1, 5, 10), commit(1, 5), sent(1, 6, 11), commit(1, 6))
    state = log((1, 5), (1, 5), commit(1, 5), (1, 6), (1, 6), commit(1, 6), after=3)
    batches = state.batches
    thinned = (batches[0]._replace(last=1, records=1), *batches[2:])
    for changed, offset in ((thinned, 0), (batches[1:], 0), ((*batches[:3], *batches[4:]), 3)):
        for where in ("state", "out"):
            with pytest.raises(RecordsRemoved) as caught:
                cut(look(events, 2, **{where: replace(state, batches=changed)}))
            assert caught.value.facts["offset"] == offset
            assert "look again" in str(pickle.loads(pickle.dumps(caught.value)))
    whole = (batches[0]._replace(last=1, records=2), *batches[2:])
    assert cut(look(events, 2, state=replace(state, batches=whole))).logs[STATE].end == 2


def test_a_transaction_without_its_marker_is_refused() -> None:
    events = group(sent(1, 5, 10), commit(1, 5))
    with pytest.raises(RecordsRemoved, match="marker"):
        cut(look(events, state=log((1, 5))))
    with pytest.raises(OffsetsUnstable, match="open"):
        cut(look(events, state=replace(log((1, 5)), stable=0)))
    # One that begins behind the end of the readings may be open.
    assert cut(look(events, state=replace(log((1, 5), commit(1, 5), (1, 6)), ends=2, after=2))).last == {1: 5}


def test_records_outside_transactions_are_refused_in_internal_topics_only() -> None:
    for where in ("state", "between"):
        with pytest.raises(OutsideTransactions) as caught:
            cut(look((), **{where: log((-1, -1))}))
        assert caught.value.facts["offset"] == 0
    assert cut(look((), out=log((-1, -1), (-1, -1), after=1))).logs[OUT].end == 1


@pytest.mark.parametrize(("producer", "offset"), [(-1, 7), (-1, None), (1, None)])
def test_offsets_that_were_committed_or_deleted_by_hand_are_refused(producer: int, offset: int | None) -> None:
    with pytest.raises(OffsetsByHand) as caught:
        cut(look(group((producer, producer, IN, offset)), state=log()))
    assert caught.value.facts["tp"] == IN


@pytest.mark.parametrize(
    ("events", "state"),
    [
        (group(sent(1, 5, 10), (1, 5, True)), log()),
        ((), log((1, 5), (1, 5, True))),
        ((), log((1, 5), commit(1, 5), (1, 5), commit(1, 5))),
        ((), log((1, 5), (1, 6), commit(1, 6))),
        (group(sent(1, 5, 10), commit(1, 5), sent(1, 5, 11), commit(1, 5)), log()),
        (group(sent(1, 5, 10), sent(1, 6, 11), commit(1, 6)), log()),
    ],
)
def test_a_producer_whose_epoch_does_not_rise_is_refused(events: tuple[GroupRecord, ...], state: LogTail) -> None:
    with pytest.raises(EpochsStay) as caught:
        cut(look(events, state=state))
    assert caught.value.facts["producer_id"] == 1


def test_markers_that_are_written_twice_or_two_epochs_up_end_what_is_open() -> None:
    events = group(sent(1, 5, 10), (1, 7, False), (1, 7, False), sent(1, 7, 11), commit(1, 7), commit(1, 7))
    found = cut(look(events, state=log((1, 5), (1, 7, False), (1, 7), commit(1, 7), commit(1, 7))))
    assert (found.last, found.committed[IN].offset) == ({1: 7}, 11)
