"""The plan's hash stands for what would be done: nothing more, and nothing less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut, RowSlice
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Evidence, TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import RescaledLog
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.interval import Interval, IntervalSlice
from streams_recovery.core.restore.parts.interval import IntervalPart, deferred, own_records
from streams_recovery.core.restore.parts.moment import MomentPart
from streams_recovery.core.restore.parts.move import MovePart
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.core.restore.parts.rescale import RescalePart, Rescaling, TopicNumbers
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.plan import RestorePlan, require_agreement
from streams_recovery.core.restore.planned import ArchivedInput, ArchivedState, Observed, PartitionLoad, TopicToDelete
from streams_recovery.core.restore.point_in_time import InPlace
from streams_recovery.core.restore.request import Safeguards, SafetyPolicy
from streams_recovery.core.restore.single_topics import SingleTopics
from tests.support.examples.restore_plan import CLAIMED, COPY, CUT, FILE, IN_PLACE, MOVED, OFFSET, PAST, PLAN, POINT, TOPIC, with_part

assert FILE is not None


ARCHIVED = ArchivedInput(entry=7, safe_at=1, records=2)
SLICE = IntervalSlice(interval=Interval(start=1_795_220_400_000, end=1_795_224_000_000))
MOVE = SiteMove(before="primary", to="dr", lost=False, kept=(), replaced={})


def with_topic(**changes: object) -> RestorePlan:
    return replace(PLAN, create=(replace(TOPIC, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, application_id="orders-eu"),
        replace(PLAN, source_application_id="orders-eu"),
        replace(PLAN, savepoint_id="20261121T012346Z-0123456789"),
        replace(PLAN, captured_at=1),
        replace(PLAN, consistency=Consistency.AHEAD),
        replace(PLAN, create=()),
        replace(PLAN, offsets=()),
        replace(PLAN, offsets=(replace(OFFSET, wanted=replace(OFFSET.wanted, offset=1_235)),)),
        replace(PLAN, offsets=(replace(OFFSET, tp=TopicPartition("orders", 1), fixed=False),)),
        replace(PLAN, offsets=(replace(OFFSET, fixed=False),)),
        replace(PLAN, strategy="latest"),
        with_part(PLAN, archived=ArchivedInput(entry=1, safe_at=2, records=3)),
        replace(PLAN, offsets_kept=(TopicPartition("returns", 0),)),
        replace(PLAN, offsets=(replace(OFFSET, wanted=replace(OFFSET.wanted, metadata="AgAB")),)),
        with_topic(name="another"),
        with_topic(replication_factor=2),
        with_topic(held_config={}),
        with_topic(final_config={}),
        with_topic(replaces="an id"),
        replace(PLAN, safety=SafetyPolicy.SKIP),
        replace(PLAN, delete=(TopicToDelete(name="orders-newer-changelog", topic_id="an id"),)),
        with_topic(partitions=TOPIC.partitions[:1]),
        with_topic(partitions=(PartitionLoad(partition=0, files=SegmentFiles.of((replace(FILE, sha256="1" * 64),))), TOPIC.partitions[1])),
    ],
)
def test_another_deed_has_another_hash(other: RestorePlan) -> None:
    assert other.hash != PLAN.hash


@pytest.mark.parametrize(
    "other",
    [
        replace(PAST, part=SavepointPart()),
        with_part(PAST, in_place=replace(IN_PLACE, groups=())),
        with_part(PAST, point=replace(POINT, with_state=False)),
        with_part(PAST, point=replace(POINT, as_of=replace(POINT.as_of, moment=1))),
        with_part(PAST, point=replace(POINT, as_of=replace(POINT.as_of, by=CutBy.POSITION))),
        replace(PAST, create=(TOPIC, replace(COPY, partitions=(replace(COPY.partitions[0], cut=replace(CUT, rows=2)),)))),
        replace(PAST, create=(TOPIC, replace(COPY, partitions=(replace(COPY.partitions[0], cut=replace(CUT, first_later=4)),)))),
    ],
)
def test_another_moment_and_another_cut_have_another_hash(other: RestorePlan) -> None:
    assert other.hash != PAST.hash
    assert codec.loads(RestorePlan, codec.dumps(PAST), where="a note") == PAST


@pytest.mark.parametrize(
    "other",
    [
        None,
        replace(IN_PLACE, groups=(replace(MOVED, wanted=replace(MOVED.wanted, offset=5)),)),
        replace(IN_PLACE, later=()),
        replace(IN_PLACE, ends={TopicPartition("orders", 0): 10}),
    ],
)
def test_another_cut_in_place_and_other_groups_moved_have_another_hash(other: InPlace | None) -> None:
    here = with_part(PAST, in_place=IN_PLACE)
    assert with_part(PAST, in_place=other).hash != here.hash
    assert codec.loads(RestorePlan, codec.dumps(here), where="a note") == here


PARTS_STORED = {"point", "in_place", "inputs_from", "single", "move", "upgrade", "archived", "state"}


@pytest.mark.parametrize(
    ("plan", "stored"),
    [
        (PLAN, set()),
        (with_part(PLAN, archived=ARCHIVED), {"archived"}),
        (PAST, {"point"}),
        (with_part(PAST, in_place=IN_PLACE), {"point", "in_place"}),
        (with_part(PAST, state=ArchivedState(entry=1, at=2)), {"point", "state"}),
        (replace(PAST, part=IntervalPart(point=replace(POINT, slice=SLICE))), {"point"}),
        (replace(PLAN, part=MovePart(move=MOVE)), {"move"}),
        (replace(PLAN, part=TopicsPart(single=SingleTopics(names={}, in_place=True))), {"single"}),
        (replace(PLAN, part=RebuildPart(inputs_from="s"), savepoint_id=None), {"inputs_from"}),
    ],
)
def test_each_kind_is_stored_with_the_names_of_all_and_read_as_the_same_kind(plan: RestorePlan, stored: set[str]) -> None:
    plain = codec.encode(plan)
    assert plain.keys() == codec.encode(PLAN).keys()
    assert "part" not in plain
    assert {name for name in PARTS_STORED if plain[name] is not None} == stored
    assert codec.loads(RestorePlan, codec.dumps(plan), where="a note") == plan


RESCALED = Rescaling(
    topics=(
        TopicNumbers(name="orders", role=TopicRole.INPUT, old=4, new=12),
        TopicNumbers(name="returns", role=TopicRole.INPUT, old=4, new=12),
        TopicNumbers(name="orders-totals-changelog", role=TopicRole.CHANGELOG, old=4, new=12),
        TopicNumbers(name="orders-others-changelog", role=TopicRole.CHANGELOG, old=3, new=3),
    ),
    anew=("orders",),
    grown=("returns",),
    history=False,
    proven_on="20261121T022345Z-0123456789",
    named=False,
)


def test_a_rescale_is_stored_as_one_and_other_plans_are_stored_as_before() -> None:
    plan = replace(PLAN, part=RescalePart(rescaled=RESCALED))
    assert codec.loads(RestorePlan, codec.dumps(plan), where="a note") == plan
    assert codec.encode(plan).keys() - codec.encode(PLAN).keys() == {"rescaled"}
    assert plan.hash != replace(PLAN, part=RescalePart(rescaled=replace(RESCALED, history=True))).hash


def test_a_person_reads_every_number_and_whose_producers_must_stand_still() -> None:
    plan = replace(PLAN, part=RescalePart(rescaled=RESCALED))
    for told in (
        "2 topics get another number of partitions",
        "nothing is processed twice",
        "| orders-totals-changelog | changelog | 4 | 12 |",
        "| orders-others-changelog | changelog | 3 | 3 |",
        "**The producers of orders must stand still from the stop to the start, and be started anew then**",
        "with their unread records only",
        "returns have their new number by now",
        "every record of savepoint `20261121T022345Z-0123456789` is proven",
    ):
        assert told in plan.text
    named = replace(PLAN, part=RescalePart(rescaled=replace(RESCALED, anew=(), grown=(), history=True, named=True)))
    assert "of savepoint `20261121T022345Z-0123456789`" in named.text
    assert "must stand still" not in named.text
    log = RescaledLog(
        topic="orders", old=4, new=12, form=None, records=5, keys_before=3, keys_after=3, digest_before="d" * 64, digest_after="d" * 64
    )
    proven = replace(plan, part=RescalePart(rescaled=replace(RESCALED, logs=(log,))))
    assert proven.part.more_facts() == [("orders", f"3 keys with the same newest values before and after, digest {'d' * 64}")]
    assert codec.loads(RestorePlan, codec.dumps(proven), where="a note") == proven
    assert plan.part.facts() == [("partitions", "orders 4 to 12, returns 4 to 12, orders-totals-changelog 4 to 12")]


def test_what_belongs_to_another_kind_is_damage() -> None:
    for plan, strange in ((PAST, {"inputs_from": "s"}), (PLAN, {"inputs_from": "s"})):
        with pytest.raises(Damaged, match=rf"a note\.{next(iter(strange))}: expected null"):
            codec.decode(RestorePlan, codec.encode(plan) | strange, where="a note")


def test_a_person_reads_what_comes_out_of_the_inputs_and_who_is_moved() -> None:
    text = with_part(PAST, in_place=IN_PLACE).text
    for told in (
        "**In place: 1 later records are removed from the inputs**",
        "for 30 s, and no transaction is open there",
        "stay in savepoint `20261121T022345Z-0123456789`, which is kept",
        "| orders | 1 |",
        "| billing | orders-0 | 9 | 4 | 3 |",
    ):
        assert told in text
    assert "other group" not in with_part(PAST, in_place=replace(IN_PLACE, groups=())).text
    assert "In place" not in PAST.text


def test_topics_of_another_application_are_named_and_approved() -> None:
    claimed = replace(PLAN, claimed=CLAIMED)
    assert claimed.hash != PLAN.hash
    text = claimed.text
    assert "They stay as they are." in text
    assert "| orders-eu-totals-changelog | it is assigned to orders-eu, because an application of that id is configured |" in text
    assert "| orders-us-totals-changelog | it is another application's, because topics.foreign" in text
    assert "it is assigned to" not in PLAN.text


def test_why_each_internal_topic_that_goes_is_the_application_s_own_is_shown() -> None:
    known = {"orders-totals-changelog": Evidence.STORE, "orders-v1-changelog": Evidence.NAMED}
    text = replace(PLAN, evidence=known).text
    assert "- orders-totals-changelog: the configuration has its store" in text
    assert "- orders-v1-changelog: **only because it was named**" in text
    assert "are taken for those of" not in PLAN.text
    assert replace(PLAN, evidence=known).hash == PLAN.hash, "what goes is approved, and that has other fields"


def test_what_is_deployed_before_the_start_is_shown_and_approved() -> None:
    deploying = replace(PLAN, deploy=("put", "the new version"))
    assert "7. **Deploy** by `put 'the new version'`. **Start**" in deploying.text
    assert deploying.hash != PLAN.hash
    assert deploying.parts["the command that deploys (`deploy.command`)"] == [["put", "the new version"]]
    assert "Deploy" not in PLAN.text


def test_a_plan_says_once_up_to_where_the_inputs_come_back() -> None:
    made = replace(PLAN, create=(TOPIC, replace(TOPIC, name="orders", role=TopicRole.INPUT)))
    assert "All inputs come from the savepoint: later input is not in them." in made.text
    behind = with_part(made, archived=ArchivedInput(entry=7, safe_at=1_795_225_000_000, records=3_000)).text
    assert "3,000 records of inputs and globals were archived behind the savepoint, and are loaded too." in behind
    assert "later input is not in them" not in behind
    assert "All inputs come from the savepoint and the archive behind it: input that came after 2026-11-21" in behind


def test_the_archive_grows_and_the_plan_stays_the_same() -> None:
    assert with_part(PAST, point=replace(POINT, archive="20261121T032345Z-0123456789")).hash == PAST.hash


def test_only_the_rows_of_the_moment_count() -> None:
    assert (PAST.rows, COPY.rows, COPY.payload_bytes) == (3, 1, 10)


@pytest.mark.parametrize(
    "same",
    [
        replace(
            PLAN, observed=Observed(instances=(), offsets_replaced={"orders-totals-changelog": 3}, offsets_before={}, records_to_catch_up=0)
        ),
        replace(PLAN, observed=replace(PLAN.observed, estimate=Estimate(seconds={"load": 90.0}, measured=2))),
        replace(PLAN, warnings=("mind the gap",)),
        replace(PLAN, offsets_agree=False),
        with_topic(held_config=dict(reversed(TOPIC.held_config.items()))),
        codec.loads(RestorePlan, codec.dumps(PLAN), where="a note"),
    ],
)
def test_what_was_only_seen_does_not_change_it(same: RestorePlan) -> None:
    assert same.hash == PLAN.hash


def test_what_is_approved_of_a_moving_log_is_the_rule() -> None:
    """Else nobody could ever approve going on at the end of an input that is written to."""
    latest = replace(PLAN, strategy="latest", offsets=(replace(OFFSET, fixed=False),))
    later = replace(latest, offsets=(replace(OFFSET, fixed=False, wanted=CommittedOffset(offset=1_300, metadata="")),))
    assert later.hash == latest.hash != PLAN.hash
    assert replace(later, strategy="earliest").hash != latest.hash


@pytest.mark.parametrize(
    ("agree", "typed", "refused"), [(True, "", False), (False, "", True), (False, "order", True), (False, "orders", False)]
)
def test_offsets_that_disagree_with_the_state_need_the_application_s_name(agree: bool, typed: str, refused: bool) -> None:
    request = Safeguards(confirm=typed)
    plan = replace(PLAN, offsets_agree=agree, strategy="latest", warnings=("12 records are never counted",))
    if not refused:
        require_agreement(plan, request)
        return
    with pytest.raises(Refused, match="12 records are never counted") as caught:
        require_agreement(plan, request)
    assert caught.value.facts == {"strategy": "latest"}


def test_a_rebuild_of_part_of_the_input_needs_it_too() -> None:
    plan = replace(
        PLAN, part=RebuildPart(), savepoint_id=None, offsets_agree=False, strategy="earliest", warnings=("the new state lacks 5 records",)
    )
    with pytest.raises(Refused, match=r"disagree with the state: the new state lacks 5.*in a rebuild all inputs, or type"):
        require_agreement(plan, Safeguards())
    require_agreement(plan, Safeguards(confirm=plan.application_id))


def test_a_person_reads_which_offsets_stay() -> None:
    kept = TopicPartition("returns", 0)
    plan = replace(PLAN, offsets_kept=(kept,), observed=replace(PLAN.observed, offsets_before={kept: 12, OFFSET.tp: 99}))
    assert "| returns-0 | 12 | stays |" in plan.text
    assert f"| {OFFSET.tp} | 99 | {OFFSET.wanted.offset} |" in plan.text
    assert plan.strategy_text == f"{plan.strategy}; kept: returns"
    assert PLAN.strategy_text == PLAN.strategy
    many = replace(plan, offsets_kept=tuple(TopicPartition("returns", number) for number in range(45)))
    assert "| 6 more, all of them in the plan as JSON | | |" in many.text


def test_a_person_reads_the_moment_and_where_each_log_is_cut() -> None:
    text = PAST.text
    for told in (
        "As of **2026-11-21 01:20:00 UTC** (1795224000000 ms) by **timestamp**",
        "the state of this savepoint and its input up to there, from the archive of `20261121T022345Z-0123456789`",
        "| past.orders-0 | 1 | 0 | 3 |",
        "every repartition topic is read to its end; then **stop**",
    ):
        assert told in text
    assert "no state, and all archived input" in with_part(PAST, point=replace(POINT, with_state=False)).text
    assert "**stop**" not in PLAN.text


def test_an_interval_is_a_plan_of_its_own_and_a_person_reads_how_much_of_it_there_is() -> None:
    wanted = IntervalSlice(interval=Interval(start=1_795_220_400_000, end=1_795_224_000_000), overlap=60_000)
    part = COPY.partitions[0]
    assert part.cut is not None
    own = replace(part.cut, slice=RowSlice(since=wanted.since, first=None, stop=None, own=1, lead=0))
    plan = replace(
        PAST,
        part=IntervalPart(point=replace(POINT, with_state=False, slice=wanted)),
        create=(TOPIC, replace(COPY, partitions=(replace(part, cut=own),))),
    )
    assert (own_records(plan), own_records(PAST)) == (1, 0)
    assert (
        with_part(plan, point=replace(POINT, slice=replace(wanted, lateness=1))).hash
        != with_part(plan, point=replace(POINT, slice=wanted)).hash
    )
    assert codec.loads(RestorePlan, codec.dumps(plan), where="a note") == plan
    text = plan.text
    assert "Process 2026-11-21 00:20:00 UTC to 2026-11-21 01:20:00 UTC again as `past` of `orders`" in text
    assert "From no state." in text
    assert "**1 input records of the interval**" in text
    with_state = with_part(plan, point=replace(POINT, slice=wanted)).text
    assert f"From the state of savepoint `{PLAN.savepoint_id}`" in with_state


def sliced(rows: int, lead: int) -> PartitionLoad:
    cut = RowCut(
        by=CutBy.TIMESTAMP,
        moment=9,
        first_later=None,
        rows=rows,
        late=0,
        slice=RowSlice(since=None, first=None, stop=None, own=1, lead=lead),
    )
    return PartitionLoad(partition=0, files=SegmentFiles.of((FILE,)), cut=cut)


@pytest.mark.parametrize(
    ("orders", "products", "globals_", "held"),
    [
        ((5, 0), (7, 7), (3, 1), {"orders": 0}),
        ((5, 2), (7, 6), (3, 3), {"orders": 2, "products": 6}),
        ((5, 5), (7, 7), (3, 0), {}),
        ((5, 0), (7, 0), (3, 3), {}),
        ((0, 0), (7, 1), (0, 0), {"products": 1}),
    ],
)
def test_what_comes_before_an_interval_is_given_first_and_a_global_whole(
    orders: tuple[int, int], products: tuple[int, int], globals_: tuple[int, int], held: dict[str, int]
) -> None:
    wanted = IntervalSlice(interval=Interval(start=1_795_220_400_000, end=1_795_224_000_000))
    inputs = [replace(COPY, name=name, partitions=(sliced(*rows),)) for name, rows in (("orders", orders), ("products", products))]
    shared = replace(COPY, name="globals", role=TopicRole.GLOBAL, partitions=(sliced(*globals_),))
    plan = replace(PAST, part=IntervalPart(point=replace(POINT, slice=wanted)), create=(TOPIC, *inputs, shared))
    assert deferred(plan) == {TopicPartition(name, 0): lead for name, lead in held.items()}
    later = sum(rows - lead for name, (rows, lead) in (("orders", orders), ("products", products)) if name in held)
    assert (f" {later} of these records are loaded after" in plan.text) is bool(held)
    assert deferred(PAST) == {}


def test_a_person_reads_everything_that_will_happen() -> None:
    text = PLAN.text
    assert "key by key" not in text, "that is done only where it is asked for, or records differ"
    for told in (
        "Restore `orders` from savepoint `20261121T012345Z-0123456789`",
        "2026-11-21 01:23:45 UTC",
        PLAN.hash[:12],
        "1 running instances (a (pid 1))",
        "| orders-totals-changelog | changelog | 2 | 2 | 20 | nothing |",
        "| orders-0 | 99 | 1234 |",
        "the inputs' by `exact`",
        "7,000 input records past the savepoint",
    ):
        assert told in text
    assert "Warning" not in text


def test_a_person_reads_what_will_be_lost() -> None:
    living = replace(
        PLAN,
        safety=SafetyPolicy.SKIP,
        delete=(TopicToDelete(name="orders-newer-changelog", topic_id="an id"),),
        create=(replace(TOPIC, replaces="an id"),),
        observed=replace(PLAN.observed, offsets_replaced={TOPIC.name: 12_345}),
    )
    text = living.text
    assert "**Save nothing**" in text
    assert "**Delete** 1 internal topics that are not in the savepoint: orders-newer-changelog." in text
    assert "| **12,345 offsets** |" in text
    assert "| an empty topic |" in replace(living, observed=PLAN.observed).text
    assert "`undo` can restore it" in PLAN.text


def test_a_person_reads_what_a_rebuild_takes_from_a_savepoint_and_what_it_does_not() -> None:
    orders = replace(TOPIC, name="orders", role=TopicRole.INPUT, replaces="an id")
    plain = replace(PLAN, part=RebuildPart(), savepoint_id=None, captured_at=None, consistency=None, create=())
    archived = replace(
        plain,
        part=RebuildPart(inputs_from="20261121T012345Z-0123456789"),
        create=(orders,),
        delete=(TopicToDelete(name="x-changelog", topic_id="t"),),
    )
    assert (plain.part.loads, archived.part.loads, archived.from_input) == (False, True, True)
    assert archived.hash != replace(archived, part=RebuildPart()).hash
    assert "Without a savepoint." in plain.text
    page = archived.text
    assert "come from savepoint `20261121T012345Z-0123456789`." in page
    assert "| x-changelog | internal | - | - | - | deleted |" in page
    assert "| orders | input | 2 | 2 | 20 | an empty topic |" in page
    assert "**prove** that no internal topic is left" in page


def test_warnings_come_before_the_deeds() -> None:
    text = replace(PLAN, consistency=Consistency.AHEAD, warnings=("output is written again",)).text
    assert text.index("counted twice") < text.index("output is written again") < text.index("1. **Stop**")


def test_a_page_stays_readable_however_many_partitions_there_are() -> None:
    many = replace(PLAN, offsets=tuple(replace(OFFSET, tp=TopicPartition("orders", number)) for number in range(45)))
    text = many.text
    assert "| orders-39 |" in text
    assert "| orders-40 |" not in text
    assert "| 5 more, all of them in the plan as JSON | | |" in text
    assert "more, all of them" not in replace(many, offsets=many.offsets[:40]).text


def test_the_page_says_how_long_it_will_take_and_by_what() -> None:
    expected = replace(PLAN.observed, estimate=Estimate(seconds={"load": 90.4, "compare": 30.0}, measured=2))
    assert (
        "Estimated time: **2 min** (load 1 min 30 s, compare 30 s), measured in the last 2 restores and drills."
        in replace(PLAN, observed=expected).text
    )
    unmeasured = replace(expected, estimate=Estimate(seconds={"load": 90.4}, measured=0))
    assert "from default rates" in replace(PLAN, observed=unmeasured).text
    assert "Estimated time" not in PLAN.text


def test_producers_write_to_inputs_and_globals_that_are_made_but_not_to_copies() -> None:
    made = tuple(replace(TOPIC, name=role.value, role=role) for role in TopicRole)
    plan = replace(PLAN, create=made)
    assert plan.written_by_others == {"input", "global"}
    assert replace(plan, part=MomentPart(point=POINT)).written_by_others == set()
    assert replace(plan, part=MomentPart(point=POINT, in_place=IN_PLACE)).written_by_others == {"input", "global"}
