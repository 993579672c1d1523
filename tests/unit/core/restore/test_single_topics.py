"""Single topics: which ones may come back alone, and that an application reads on exactly where its state ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest, PartitionImage, SegmentFile, TopicImage
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.plan import RestorePlan, check_plan
from streams_recovery.core.restore.point_in_time import AsOf, Split, cut_log
from streams_recovery.core.restore.single_topics import (
    HowKnown,
    KnownReads,
    OtherReader,
    ReadOn,
    SingleTopics,
    StateNow,
    WantedTopics,
    chosen_topics,
    copy_config,
    gap_warnings,
    moved_since,
    offset_in_copy,
    read_position,
    refuse_unproven,
)
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.restore_plan import OFFSET, PLAN, TOPIC, with_part

TP = TopicPartition("orders", 0)
MOMENT = 50
# Offset and timestamp of each record of a log: compaction and transactions leave holes.
LOGS = st.lists(st.integers(1, 3), max_size=12).flatmap(
    lambda steps: st.tuples(*(st.tuples(st.just(sum(steps[: at + 1]) - 1), st.integers(0, 100)) for at in range(len(steps))))
)


def file_of(rows: tuple[tuple[int, int], ...]) -> SegmentFile:
    stamps = [stamp for _, stamp in rows]
    return SegmentFile(
        key="k",
        bytes=1,
        sha256="0" * 64,
        rows=len(rows),
        first_offset=rows[0][0],
        last_offset=rows[-1][0],
        min_timestamp=min(stamps),
        max_timestamp=max(stamps),
        payload_bytes=1,
        largest_record=1,
    )


def image_of(log: tuple[tuple[int, int], ...], pieces: int, end: int, committed: int | None = 0) -> PartitionImage:
    """An archive of a log, in files of so many rows."""
    files = [log[at : at + pieces] for at in range(0, len(log), pieces)]
    bounds = [0, *(rows[0][0] for rows in files[1:]), end]
    ranges = [CopiedRange(start=bounds[at], end=bounds[at + 1], file=file_of(rows)) for at, rows in enumerate(files)]
    return PartitionImage(
        partition=0,
        log_start=0,
        last_stable=end,
        end=end,
        leader_epoch=None,
        committed=None if committed is None else CommittedOffset(offset=committed, metadata="m"),
        ranges=tuple(ranges) or (CopiedRange(start=0, end=end, file=None),) if end else (),
        gaps=(),
    )


def inside(log: tuple[tuple[int, int], ...], file: SegmentFile) -> list[tuple[int, int]]:
    return [row for row in log if file.first_offset <= row[0] <= file.last_offset]


@given(LOGS, st.integers(1, 4), st.integers(0, 3), st.integers(0, 50), st.data())
def test_an_offset_counts_the_records_before_it(
    log: tuple[tuple[int, int], ...], pieces: int, more: int, t0: int, data: st.DataObject
) -> None:
    end = (log[-1][0] + 1 if log else 0) + more
    offset = data.draw(st.integers(0, end))
    image = image_of(log, pieces, end)
    found = offset_in_copy(
        TP,
        offset,
        image,
        None,
        t0,
        below=lambda file, below: sum(1 for at, _ in inside(log, file) if at < below),
        count=lambda *_: pytest.fail("there is no cut"),
    )
    assert found == t0 + sum(1 for at, _ in log if at < offset)


@given(LOGS, st.integers(1, 4), st.sampled_from(list(CutBy)), st.data())
def test_with_a_moment_it_counts_the_records_of_it_and_nothing_later_was_processed(
    log: tuple[tuple[int, int], ...], pieces: int, by: CutBy, data: st.DataObject
) -> None:
    end = log[-1][0] + 1 if log else 0
    offset = data.draw(st.integers(0, end))
    image = image_of(log, pieces, end)

    def split(file: SegmentFile, moment: int, _written: int) -> Split:
        rows = inside(log, file)
        later = next((number for number, (_, stamp) in enumerate(rows) if stamp > moment), len(rows))
        behind = sum(1 for _, stamp in rows[later:] if stamp <= moment)
        return Split(first_later=rows[later][0] if later < len(rows) else None, before=later, behind=behind)

    def count(file: SegmentFile, below: int, cut: RowCut | None) -> int:
        return sum(1 for at, stamp in inside(log, file) if at < below and (cut is None or stamp <= cut.moment))

    cut = cut_log(image.files(), AsOf(moment=MOMENT, by=by), split)
    first_later = next((at for at, stamp in log if stamp > MOMENT), None)
    if first_later is not None and first_later < offset:
        with pytest.raises(Refused, match="its state has what would be left out"):
            offset_in_copy(TP, offset, image, cut, 0, below=lambda *_: 0, count=count)
        return
    found = offset_in_copy(TP, offset, image, cut, 7, below=lambda *_: pytest.fail("there is a cut"), count=count)
    assert found == 7 + sum(1 for at, stamp in log if at < offset and stamp <= MOMENT)


@given(
    st.integers(0, 20),
    st.none() | st.integers(0, 30),
    st.none() | st.integers(0, 30),
    st.booleans(),
    st.sampled_from(list(ReadOn)),
    st.sampled_from(["earliest", "latest", "none"]),
)
def test_where_an_application_has_read_to_is_proven_or_chosen_and_never_behind_the_archive(
    end: int, now: int | None, at_newest: int | None, unmoved: bool, wanted: ReadOn, reset: str
) -> None:
    image = image_of((), 1, end)
    newest = replace(
        image_of((), 1, max(end, at_newest or 0)), committed=None if at_newest is None else CommittedOffset(offset=at_newest, metadata="s")
    )
    committed = None if now is None else CommittedOffset(offset=now, metadata="g")
    found = read_position(image, KnownReads(committed=committed, newest=newest, unmoved=unmoved), reset, wanted)
    least = at_newest if at_newest is not None else newest.end if reset == "latest" else 0
    if now is not None:
        assert found is not None
        assert (found.offset, found.metadata, found.known) == (min(now, end), "g", HowKnown.COMMITTED)
    elif least >= end:
        assert found is not None
        assert (found.offset, found.known) == (end, HowKnown.ALL_READ)
    elif unmoved:
        assert found is not None
        assert (found.offset, found.known) == (least, HowKnown.UNMOVED)
    elif wanted is ReadOn.PROVEN:
        assert found is None
    else:
        assert found is not None
        assert found.known is HowKnown.CHOSEN
        assert found.offset == (least if wanted is ReadOn.SAVEPOINT else end)
        assert wanted is ReadOn.SAVEPOINT or found.metadata == ""


def test_what_is_not_proven_is_told_with_its_offsets_and_why() -> None:
    refuse_unproven({}, ("a changelog moved",))
    with pytest.raises(Refused, match=r"orders-0 offsets 3 to 8 may be processed or not.*a changelog moved") as caught:
        refuse_unproven({TP: (3, 9)}, ("a changelog moved",))
    assert caught.value.facts["spans"] == {"orders-0": (3, 9)}


def topic(name: str, role: TopicRole, *, rows: bool = True, archived: bool = True) -> TopicImage:
    [plain] = manifest_with(partition([copied(0, 5, rows=rows)], [], end=5)).topics
    return replace(plain, name=name, role=role, archived=archived, topic_id=f"id of {name}", evidence=None, store=None)


MANIFEST: Manifest = replace(
    manifest_with(),
    topics=(
        topic("orders", TopicRole.INPUT),
        topic("empty", TopicRole.INPUT, rows=False),
        topic("plain", TopicRole.INPUT, archived=False),
        topic("totals", TopicRole.OUTPUT),
        topic("orders-store-changelog", TopicRole.CHANGELOG),
        topic("orders-x-repartition", TopicRole.REPARTITION),
    ),
)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (WantedTopics(topics=("orders-store-changelog",)), "state is one piece"),
        (WantedTopics(topics=("orders-x-repartition",)), "state is one piece"),
        (WantedTopics(topics=("orders-gone-changelog",)), "state is one piece"),
        (WantedTopics(topics=("unheard",)), "does not know unheard"),
        (WantedTopics(topics=("plain",)), "are not archived"),
        (WantedTopics(topics=("empty",)), "has no record of empty"),
        (WantedTopics(topics=("orders",), partitions=(0, 3)), "has 1 partitions, and no 3"),
        (WantedTopics(topics=()), "no topic is named"),
        (WantedTopics(topics=("orders", "totals"), new_name="x"), "only one topic at a time"),
        (WantedTopics(topics=("orders",), new_name="totals"), "is a topic of orders itself"),
        (WantedTopics(topics=("orders",), new_name="declared"), "is a topic of orders itself"),
        (WantedTopics(topics=("orders",), new_name="orders-a-changelog"), "would be taken for state"),
    ],
)
def test_what_cannot_come_back_alone_is_refused(wanted: WantedTopics, why: str) -> None:
    with pytest.raises(Refused, match=why):
        chosen_topics(MANIFEST, wanted, {"declared"})


def test_all_that_is_wrong_is_told_at_once_and_the_rest_is_chosen() -> None:
    with pytest.raises(Refused) as caught:
        chosen_topics(MANIFEST, WantedTopics(topics=("plain", "orders", "unheard")), ())
    assert (len(caught.value.facts["problems"]), caught.value.facts["topics"]) == (2, ["plain", "unheard"])
    found = chosen_topics(MANIFEST, WantedTopics(topics=("totals", "orders", "totals")), ())
    assert [one.name for one in found] == ["totals", "orders"]
    assert chosen_topics(MANIFEST, WantedTopics(topics=("orders",), new_name="orders-copy", partitions=(0,)), ()) == (MANIFEST.topics[0],)


def now(manifest: Manifest = MANIFEST) -> StateNow:
    """As it was at the savepoint, with the inputs gone."""
    there = [one for one in manifest.topics if one.role is not TopicRole.INPUT]
    return StateNow(
        topics={
            one.name: TopicDescription(
                name=one.name, topic_id=one.topic_id, partitions=1, replication_factor=1, config={}, leader_epochs=(0,)
            )
            for one in there
        },
        internal=[one.name for one in there if one.role.internal],
        ends={TopicPartition(one.name, 0): 5 for one in there},
        committed={TopicPartition(one.name, 0): 3 for one in there},
    )


INPUTS = ("orders", "empty", "plain")


def test_an_application_that_has_processed_nothing_has_not_moved() -> None:
    assert moved_since(MANIFEST, now(), INPUTS) == ()


CHANGELOG, OUTPUT = TopicPartition("orders-store-changelog", 0), TopicPartition("totals", 0)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(now(), ends=now().ends | {CHANGELOG: 6}), "ended at 5 and ends at 6"),
        (replace(now(), ends=now().ends | {OUTPUT: 6}), "totals-0 ended at 5 and ends at 6"),
        (replace(now(), committed=now().committed | {TopicPartition("orders-x-repartition", 0): 4}), "was read to 3 and is read to 4"),
        (replace(now(), committed={}), "is read to nothing"),
        (replace(now(), internal=[*now().internal, "orders-new-changelog"]), "orders-new-changelog was created"),
        (replace(now(), topics={k: v for k, v in now().topics.items() if k != "totals"}), "totals is gone"),
        (replace(now(), topics=now().topics | {"totals": replace(now().topics["totals"], topic_id="new")}), "totals is another topic"),
    ],
)
def test_any_trace_of_work_is_found(other: StateNow, why: str) -> None:
    assert why in "; ".join(moved_since(MANIFEST, other, INPUTS))


def test_without_anything_to_look_at_nothing_is_proven() -> None:
    inputs = replace(MANIFEST, topics=MANIFEST.topics[:3])
    assert moved_since(inputs, replace(now(), topics={}, internal=[], ends={}, committed={}), INPUTS)
    assert moved_since(replace(MANIFEST, consistency=Consistency.AHEAD), now(), INPUTS)


@given(
    st.dictionaries(
        st.sampled_from(["cleanup.policy", "retention.ms", "retention.bytes", "min.compaction.lag.ms", "max.message.bytes"]), st.just("7")
    )
)
def test_nothing_in_a_copy_expires_or_is_compacted(config: dict[str, str]) -> None:
    made = copy_config(config)
    assert (made["cleanup.policy"], made["retention.ms"], made["retention.bytes"]) == ("delete", "-1", "-1")
    assert made["message.timestamp.type"] == "CreateTime"
    assert "min.compaction.lag.ms" not in made
    assert ("max.message.bytes" in made) == ("max.message.bytes" in config)


def test_what_is_missing_in_the_archive_is_named() -> None:
    whole = partition([copied(0, 5)], [], end=5)
    assert gap_warnings({TP: whole}) == ()
    [gaps, late] = gap_warnings({TP: replace(partition([copied(2, 5)], [Gap(start=3, end=4, reason="expired")], end=5), log_start=1)})
    assert "offsets 3 to 3 of orders-0 (expired)" in gaps
    assert "orders-0 below 2" in late


INPUT = replace(TOPIC, name="orders", role=TopicRole.INPUT)
SINGLE = SingleTopics(names={"orders": "orders"}, in_place=True, known={OFFSET.tp: HowKnown.UNMOVED})
ALONE: RestorePlan = replace(PLAN, create=(INPUT,), part=TopicsPart(single=SINGLE))
COPY: RestorePlan = replace(
    PLAN, create=(replace(INPUT, name="copy"),), offsets=(), part=TopicsPart(single=SingleTopics(names={"copy": "orders"}, in_place=False))
)
FILLED = replace(SINGLE, filled={"orders": "an id"}, partitions=(1,), begins={TopicPartition("orders", 1): 4})
PART: RestorePlan = replace(ALONE, create=(replace(INPUT, partitions=INPUT.partitions[1:]),), part=TopicsPart(single=FILLED))


@pytest.mark.parametrize(
    "other",
    [
        replace(SINGLE, in_place=False),
        replace(SINGLE, names={"orders": "other"}),
        replace(SINGLE, partitions=(0,)),
        replace(SINGLE, wipes=True),
        replace(SINGLE, as_of=AsOf(moment=1, by=CutBy.POSITION)),
        replace(SINGLE, known={OFFSET.tp: HowKnown.CHOSEN}),
        None,
    ],
)
def test_another_way_to_bring_topics_back_has_another_hash(other: SingleTopics | None) -> None:
    plan = replace(ALONE, part=SavepointPart() if other is None else TopicsPart(single=other))
    assert plan.hash != ALONE.hash
    part = "the single topics (`--topic`, `--as`, `--partition`, `--read-on`)"
    assert [name for name, value in ALONE.parts.items() if plan.parts[name] != value] == [part]


def test_who_else_reads_them_is_seen_and_not_approved() -> None:
    reader = OtherReader(group="billing", tp=OFFSET.tp, before=9, there=4, saved=False)
    seen = replace(ALONE, observed=replace(ALONE.observed, readers=(reader, replace(reader, group="late", before=None, there=None))))
    assert seen.hash == ALONE.hash
    assert "| billing | orders-0 | 9 | 4 |" in seen.text
    assert "| late | orders-0 | - | - |" in seen.text
    assert "Other groups" not in ALONE.text


def test_a_person_reads_what_is_done_and_what_is_left_alone() -> None:
    text = ALONE.text
    for told in (
        "### Restore orders of `orders`",
        "**The state of the application stays as it is.**",
        "| orders-0 | 1234 | nothing of the application has moved since the savepoint |",
        "The application stays stopped. Start `orders` when the restore is over.",
    ):
        assert told in text
    assert "Wipe" not in text
    assert "**Wipe** the local state" in with_part(ALONE, single=replace(SINGLE, wipes=True)).text
    copy = COPY.text
    assert "### Restore orders of `orders` as copy" in copy
    assert "**No committed offset** is set." in copy
    assert "keeps its records until somebody sets its retention" in copy
    assert "nothing: its empty partitions are filled" in PART.text
    later = with_part(ALONE, single=replace(SINGLE, as_of=AsOf(moment=1_795_224_000_000, by=CutBy.POSITION), later=12)).text
    assert "12 archived records are later and stay in the savepoint" in later


def test_only_its_own_topics_may_hold_the_only_copy_of_a_record() -> None:
    assert ALONE.written_by_others == {"orders"}
    assert COPY.written_by_others == frozenset()


@pytest.mark.parametrize("good", [ALONE, COPY, PART])
def test_a_plan_that_says_the_same_everywhere_is_believed(good: RestorePlan) -> None:
    check_plan(good, where="a note")


@pytest.mark.parametrize(
    "forged",
    [
        with_part(ALONE, single=replace(SINGLE, names={"orders": "orders", "another": "orders"})),
        with_part(ALONE, single=replace(SINGLE, names={"../x": "orders"})),
        with_part(ALONE, single=replace(SINGLE, filled={"payments": "an id"})),
        with_part(ALONE, single=replace(SINGLE, begins={TopicPartition("payments", 0): 4})),
        with_part(PART, single=replace(FILLED, begins={})),
        with_part(PART, single=replace(FILLED, filled={})),
    ],
)
def test_one_that_would_alter_another_topic_is_not(forged: RestorePlan) -> None:
    with pytest.raises(Damaged):
        check_plan(forged, where="a note")
