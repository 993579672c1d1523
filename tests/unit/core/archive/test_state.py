"""A simulated application at work beside an archiver that takes cuts of it: whatever happens, a savepoint at the newest cut has the state, the offsets and the
unread records of one moment, or there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.archive.cuts import ArchivedCut, ArchivedTail
from streams_recovery.core.archive.join import behind, groups_to_join
from streams_recovery.core.archive.log import ArchiveEntry, ArchiveEvent
from streams_recovery.core.archive.state import (
    Broken,
    NoCut,
    StateTopics,
    at_cut,
    check_forward,
    check_read,
    check_whole,
    has_news,
    plan_state,
    seen_at,
)
from streams_recovery.core.archive.tick import archived_to
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import RangeCopied
from streams_recovery.core.kafka_types import ClaimedTopic, CommittedOffset, Consistency, TopicPartition
from streams_recovery.core.named_transactions.proof import NamedLogCut, NamedProof
from streams_recovery.core.repository.manifest import CopiedRange, Gap, Manifest
from tests.support.examples.archived_state import (
    CHANGELOG,
    INPUT,
    LIMITS,
    OUTPUT,
    ROLES,
    TAIL,
    Log,
    World,
    described,
    images_of,
    offered,
    world_with_cut,
)

# Of a log that the cut is not through.
NO_NAMES = NamedProof(
    group=TopicPartition("__consumer_offsets", 0),
    group_end=0,
    last=(),
    taken_back=(),
    logs={TopicPartition("elsewhere", 0): NamedLogCut(start=0, end=0, records=0, excluded=())},
)


def cleaned_meanwhile(world: World, number: int) -> None:
    world.process(number % 4, -world.now)
    world.logs[CHANGELOG].clean()


def _recreated(world: World) -> None:
    world.logs[CHANGELOG] = Log(topic_id=f"id-{world.now}")
    world.logs[CHANGELOG].write(*world.state.items())


STEPS: dict[str, Callable[[World, int], None]] = {
    "process": lambda world, n: world.process(n % 4, world.now),
    "process much": lambda world, n: [world.process(key % 4, world.now + key) for key in range(n)] and None,
    "begin what no cut has": lambda world, n: world.begin(n % 4),
    "decide it": lambda world, _: world.decide(),
    "drain": lambda world, _: world.drain(),
    "clean": lambda world, _: world.logs[CHANGELOG].clean(),
    "look": lambda world, _: world.look(),
    "look while it works and is cleaned": lambda world, n: world.look(meanwhile=lambda: cleaned_meanwhile(world, n)),
    "look while unread records are read and deleted": lambda world, _: world.look(meanwhile=world.drain),
    "look and find no cut": lambda world, _: world.look(cut_wanted=False),
    "look and lose": lambda world, _: world.look(lose=True),
    "join": lambda world, _: world.join(),
    "save": lambda world, _: world.save(),
    "make the changelog again": lambda world, _: _recreated(world),
}


@pytest.mark.fault("F70")
@pytest.mark.parametrize("examples", [300, pytest.param(20_000, marks=pytest.mark.deep)])
def test_a_savepoint_at_the_newest_cut_is_of_one_moment_whatever_happened(examples: int) -> None:
    @settings(max_examples=examples)
    @given(steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 9)), max_size=40))
    def try_many(steps: list[tuple[str, int]]) -> None:
        world = World()
        world.process(0, 0)
        world.save()
        world.now += 1_000
        for name, number in steps:
            STEPS[name](world, number)
            world.check()
            world.offered()
            world.now += 1_000

    try_many()


def test_a_cut_is_found_each_time_that_something_was_processed_and_only_then() -> None:
    world = world_with_cut()
    assert world.base is not None
    there = at_cut(world.base, world.archive)
    assert isinstance(there, Manifest)
    assert there.captured_at == world.now
    assert there.savepoint_id == world.base.savepoint_id
    world.now += 1_000
    world.look()
    assert world.cuts == 2, "nothing has happened since"
    world.join()
    assert at_cut(world.base, world.archive) is not None
    world.save()
    assert at_cut(world.base, world.archive) is None, "the savepoint is newer"


def test_each_cut_is_kept_until_files_are_joined_behind_a_newer_savepoint() -> None:
    world = world_with_cut()
    for number in range(2, 7):
        world.now += 1_000
        world.drain()
        world.process(number, number)
        world.look()
    assert world.offered() == len(world.kept) == 7
    world.join()
    assert world.offered() == 7, "files go across the ends of older cuts"
    world.now += 1_000
    world.process(1, 7)
    world.save()
    assert world.offered() == 7
    world.now += 1_000
    world.process(2, 8)
    world.look()
    assert world.offered() == 8, "those between the last two savepoints are there still"
    world.join()
    assert world.offered() == 1


@pytest.mark.parametrize(("first_later", "fits"), [(None, True), (0, False), (1, False), (2, True), (3, True)])
def test_a_cut_is_no_base_of_a_moment_before_which_it_had_not_come_to_the_end_of_what_it_read(first_later: int | None, fits: bool) -> None:
    cut = world_with_cut().kept[0]
    (part,) = cut.inputs
    read = replace(part, committed=CommittedOffset(offset=2, metadata="", leader_epoch=None))
    assert replace(cut, inputs=(read,)).read_no_later({INPUT: first_later}) is fits
    assert replace(cut, inputs=(replace(part, committed=None),)).read_no_later({INPUT: first_later})


def test_an_archive_has_news_while_there_is_input_that_was_not_read_at_the_newest_cut() -> None:
    world = world_with_cut()
    assert world.base is not None
    world.now += 3_600_000
    world.look()
    world.add(ArchiveEvent.STILL)
    world.join()
    assert world.archive.cut is not None
    assert (world.archive.safe_at, has_news(world.base, world.archive)) == (world.now, False), "at rest"
    world.process(2, 2)
    world.look(cut_wanted=False)
    assert has_news(world.base, world.archive)
    world.look()
    assert not has_news(world.base, world.archive)


def test_without_a_cut_what_the_savepoint_has_not_read_is_news() -> None:
    world = world_with_cut()
    world.save()
    world.join()
    assert world.base is not None
    assert world.archive.cut is None
    assert not has_news(world.base, world.archive)
    world.process(2, 2)
    world.look(cut_wanted=False)
    assert has_news(world.base, world.archive)


def test_a_backlog_larger_than_a_look_comes_to_a_cut_in_several() -> None:
    world = World()
    world.process(0, 0)
    world.save()
    for key in range(20):
        world.process(key, key)
    world.drain()
    looks = 0
    while not world.cuts:
        world.now += 1_000
        world.look()
        looks += 1
    assert looks > 3
    assert offered(world)
    for key in range(20):
        world.process(key, -key)
    world.drain()
    world.now += 1_000
    world.look()
    world.join()
    assert world.cuts == 1, "what was copied is behind the cut, which is still there"
    assert offered(world)
    world.save()
    world.join()
    assert world.archive.cut is None


def world_with_names() -> World:
    """With a cut by names, which leaves one of two unread records out behind the savepoint."""
    world = World()
    world.process(0, 0)
    world.save()
    world.begin(3)
    world.process(1, 1)
    world.now += 1_000
    world.look()
    assert world.cuts == 1
    return world


def test_a_cut_by_names_has_no_unread_record_of_other_transactions_also_when_files_were_joined() -> None:
    world = world_with_names()
    assert offered(world)
    world.join()
    assert offered(world)
    assert world.base is not None
    there = at_cut(world.base, world.archive)
    assert isinstance(there, Manifest)
    assert (world.base.format_version, there.format_version) == (8, 9)
    rows = {name: [row for file in image.files() for row in world.files[file.key]] for name, image in images_of(there)}
    assert [key for _, key, _ in rows[TAIL.topic]] == [0, 1]
    world.decide()
    world.now += 1_000
    world.process(2, 2)
    world.look()
    assert offered(world), "then it is in the next one"


def test_a_cut_without_names_is_stored_as_before_and_one_by_names_has_a_key_that_readers_without_them_refuse() -> None:
    plain, named = world_with_cut().archive.cut, world_with_names().archive.cut
    assert codec.encode(named)["proof"].keys() - codec.encode(plain)["proof"].keys() == {"names"}
    assert b"names" not in codec.dumps(plain)


Altered = Callable[[World], World]


@pytest.mark.parametrize(
    ("altered", "why"),
    [
        (lambda tail: replace(tail, file=None), "the 0 unread records of orders-by-repartition-0 are not those that the names"),
        (
            lambda tail: replace(tail, file=replace(tail.file, rows=4)),
            "the 4 unread records of orders-by-repartition-0 are not those that the",
        ),
    ],
)
def test_unread_records_that_are_not_those_of_the_names_are_not_offered(altered: Callable[[CopiedRange], CopiedRange], why: str) -> None:
    world = world_with_names()
    cut = world.archive.cut
    assert cut is not None
    [tail] = cut.tails
    found = of_cut(tails=(replace(tail, copied=altered(tail.copied)),))(world)
    assert found.base is not None
    assert why in str(at_cut(found.base, found.archive))


def of_cut(**changes: object) -> Altered:
    """A world whose newest cut has other facts."""
    return lambda world: replace(world, archive=replace(world.archive, cut=replace(world.archive.cut, **changes)))


def _changed(world: World, tp: TopicPartition, **changes: object) -> World:
    cut = world.archive.cut
    assert cut is not None
    written = tuple(replace(part, **changes) if part.tp == tp else part for part in cut.written)
    inputs = tuple(replace(part, **changes) if part.tp == tp else part for part in cut.inputs)
    return of_cut(written=written, inputs=inputs)(world)


def _with_end(world: World, tp: TopicPartition, end: int) -> World:
    return _changed(world, tp, end=end)


def _with_read(world: World, offset: int) -> World:
    return _changed(world, INPUT, committed=CommittedOffset(offset=offset, metadata=""))


def _with_start(world: World, start: int) -> World:
    return _changed(world, CHANGELOG, log_start=start)


def _with_gap(world: World) -> World:
    [log] = world.archive.logs[CHANGELOG]
    holed = replace(log, ranges=(), gaps=(Gap(start=log.start, end=log.end, reason="deleted"),))
    return replace(world, archive=replace(world.archive, logs={**world.archive.logs, CHANGELOG: (holed,)}))


@pytest.mark.parametrize(
    ("altered", "why"),
    [
        (of_cut(topics={"in": "id-0"}), "it is through other topics"),
        (of_cut(inputs=()), "it is through other partitions: in-0"),
        (of_cut(tails=()), "the unread records of orders-by-repartition-0 are not archived"),
        (lambda world: replace(world, archive=replace(world.archive, logs={})), "is not in the archive"),
        (lambda world: _with_end(world, CHANGELOG, 1_000), "orders-totals-changelog-0 is not archived from 2 to 1000"),
        (lambda world: _with_read(world, 1_000), "in-0 is archived up to 6, and was read up to 1000"),
        (lambda world: _with_start(world, 1), "records of orders-totals-changelog-0 before 1 were deleted since the savepoint"),
        (_with_gap, "orders-totals-changelog-0 is not archived from 2 to 6"),
    ],
)
def test_a_cut_without_its_whole_proof_is_not_offered(altered: Altered, why: str) -> None:
    world = altered(world_with_cut())
    assert world.base is not None
    found = at_cut(world.base, world.archive)
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize("consistency", [Consistency.AHEAD, Consistency.DAMAGED])
def test_no_cut_goes_on_from_a_savepoint_that_is_not_exact(consistency: Consistency) -> None:
    world = world_with_cut()
    assert world.base is not None
    other = replace(world.base, consistency=consistency)
    assert at_cut(other, world.archive) is None
    with pytest.raises(NoCut, match="is not an exact one with state"):
        StateTopics.of(other, ())


@pytest.mark.fault("F71")
def test_an_application_with_other_topics_than_the_savepoint_is_not_cut() -> None:
    world = world_with_cut()
    assert world.base is not None
    claimed = ClaimedTopic(topic="orders-eu-x-changelog", group="orders-eu")
    topics = StateTopics.of(replace(world.base, claimed=(claimed,)), ())
    there = {tp.topic: described(tp.topic, "id-0") for tp in ROLES}
    topics.check("orders", [*there, "orders-eu-x-changelog", "payments"], there, [INPUT, TAIL])
    with pytest.raises(NoCut, match="does not know orders-more-changelog"):
        topics.check("orders", [*there, "orders-more-changelog"], there, [INPUT])
    with pytest.raises(NoCut, match="does not know payments"):
        topics.check("orders", there, there, [INPUT, TopicPartition("payments", 0)])
    for changed in (described("in", "id-1"), described("in", "id-0", partitions=2)):
        with pytest.raises(NoCut, match="in changed since the newest savepoint"):
            topics.check("orders", there, {**there, "in": changed}, [INPUT])
    with pytest.raises(NoCut, match="out changed since the newest savepoint"):
        topics.check("orders", there, {name: found for name, found in there.items() if name != "out"}, [INPUT])


@pytest.mark.parametrize(
    ("outputs", "read", "looped"),
    [((), INPUT, None), ((), OUTPUT, "out"), ((INPUT.topic,), TAIL, "in"), ((OUTPUT.topic,), INPUT, None)],
    ids=["none", "committed on an output", "an input that is configured as an output", "as configured"],
)
def test_an_application_that_reads_what_it_writes_is_not_cut(outputs: tuple[str, ...], read: TopicPartition, looped: str | None) -> None:
    world = world_with_cut()
    assert world.base is not None
    topics = StateTopics.of(world.base, outputs)
    there = {tp.topic: described(tp.topic, "id-0") for tp in ROLES}
    if looped is None:
        topics.check("orders", there, there, [INPUT, read])
    else:
        with pytest.raises(NoCut, match=f"it reads {looped}, which it writes too"):
            topics.check("orders", there, there, [INPUT, read])


@pytest.mark.parametrize(
    "altered",
    [
        lambda cut: replace(cut, proof=replace(cut.proof, names=NO_NAMES)),
        lambda cut: replace(cut, topics={"../in": "id"}),
        lambda cut: replace(cut, inputs=(*cut.inputs, *cut.inputs)),
        lambda cut: replace(cut, written=(replace(cut.written[0], leader_epoch=-2),)),
        lambda cut: replace(cut, tails=tuple(replace(tail, tp=TopicPartition("elsewhere", -1)) for tail in cut.tails)),
        lambda cut: replace(cut, tails=tuple(_elsewhere(tail) for tail in cut.tails)),
    ],
)
def test_a_cut_that_names_what_no_application_has_is_refused(altered: Callable[[ArchivedCut], ArchivedCut]) -> None:
    cut = world_with_cut().archive.cut
    assert cut is not None
    entry = ArchiveEntry(event=ArchiveEvent.COPIED, run="r", at=1, cluster_id="c", cut=altered(cut))
    with pytest.raises(Damaged):
        entry.checked("orders", "entry")


def test_state_that_does_not_go_on_is_not_copied_before_the_next_savepoint() -> None:
    world = world_with_cut()
    ids = {tp.topic: log.topic_id for tp, log in world.logs.items()}
    positions = archived_to(world.archive, world.base, ids, state=True)
    cut = world.archive.cut
    assert cut is not None
    world.process(2, 2)
    now = world.seen(CHANGELOG)
    assert plan_state([now], positions, LIMITS, cut).cut is cut
    for other, why in (
        (replace(now, topic_id="id-1"), "the topic was created again"),
        (replace(now, high=1, last_stable=1), "it was truncated"),
        (replace(now, log_start=now.high), "was deleted up to 8, and is archived up to 6"),
        (replace(now, tp=TopicPartition("orders-totals-changelog", 1)), "does not have orders-totals-changelog-1"),
    ):
        with pytest.raises(Broken, match=why):
            plan_state([other], positions, LIMITS, cut)


@pytest.mark.parametrize(("end", "joined"), [(4, []), (6, [CHANGELOG])])
def test_no_file_is_joined_across_the_cut(end: int, joined: list[TopicPartition]) -> None:
    found = _changed(world_with_cut(), CHANGELOG, end=end).archive
    groups = groups_to_join(found, {CHANGELOG: found.logs[CHANGELOG]}, file_records=LIMITS.file_records)
    assert [group.tp for group in groups] == joined


def test_an_archive_without_state_forgets_what_there_was_of_it() -> None:
    world = world_with_cut()
    assert set(behind(world.archive, world.base)) == {INPUT}
    assert set(behind(world.archive, world.base, state=True)) == {INPUT, CHANGELOG, OUTPUT}


def test_offsets_that_somebody_has_set_are_no_part_of_a_cut() -> None:
    world = world_with_cut()
    before = seen_at(world.archive.cut) if world.archive.cut else {}
    check_forward(before, before)
    end, known = before[INPUT]
    assert known is not None
    check_forward(before, {**before, INPUT: (end, replace(known, offset=known.offset + 1))})
    check_forward({**before, INPUT: (end, None)}, {**before, INPUT: (end, None)})
    with pytest.raises(NoCut, match="the committed offset of in-0 went from 6 back to 5"):
        check_forward(before, {**before, INPUT: (end, replace(known, offset=5))})
    with pytest.raises(NoCut, match="the committed offset of in-0 went from 6 away"):
        check_forward(before, {**before, INPUT: (end, None)})


def test_a_cut_waits_for_the_input_that_it_has_read() -> None:
    world = world_with_cut()
    cut = world.archive.cut
    assert cut is not None
    archived = archived_to(world.archive, world.base, {}, state=True)
    check_read(cut, archived)
    with pytest.raises(NoCut, match="in-0 is archived up to 5, and was read up to 6"):
        check_read(cut, {**archived, INPUT: replace(archived[INPUT], end=5)})


def test_a_truncated_input_is_no_input_of_a_cut() -> None:
    world = world_with_cut()
    [log] = world.archive.logs[INPUT]
    other = replace(world.archive, logs={**world.archive.logs, INPUT: (replace(log, since_epoch=1),)})
    assert world.base is not None
    assert at_cut(world.base, other) == "in-0 was truncated since the savepoint"


def test_whoever_keeps_an_input_asks_by_the_leader_of_the_cut() -> None:
    world = _changed(world_with_cut(), INPUT, leader_epoch=7)
    assert world.base is not None
    there = at_cut(world.base, world.archive)
    assert isinstance(there, Manifest)
    assert [image.leader_epoch for name, image in images_of(there) if name == INPUT.topic] == [7]


def test_unread_records_are_copied_with_the_cut_or_there_is_none() -> None:
    world = world_with_cut()
    cut, positions = world.archive.cut, archived_to(world.archive, world.base, {}, state=True)
    assert cut is not None
    planned = plan_state([world.seen(CHANGELOG)], positions, LIMITS, replace(cut, tails=()), [world.at(TAIL)])
    assert [(one.tp, one.start, one.end) for one in planned.tails] == [(TAIL, 0, 6)]
    made = planned.with_tails([world.piece(one) for one in planned.tails])
    assert made is not None
    assert [one.copied.file.rows for one in made.tails if one.copied.file] == [3]
    for copied in ([], [world.piece(replace(planned.tails[0], start=2))]):
        with pytest.raises(NoCut, match="unread records of orders-by-repartition-0 were deleted before they could be copied"):
            planned.with_tails(copied)
    with pytest.raises(NoCut, match="6 records of repartition topics are unread"):
        plan_state([world.seen(CHANGELOG)], positions, replace(LIMITS, records=5), cut, [world.at(TAIL)])


def test_state_is_proven_by_what_is_there_after_it_was_copied() -> None:
    [log] = world_with_cut().archive.logs[CHANGELOG]
    piece = RangeCopied(tp=CHANGELOG, copied=log.ranges[0], fetched=0, log_start_after=log.start, worker="w")
    check_whole([log], [piece], {CHANGELOG})
    with pytest.raises(NoCut, match="the log cleaner was at orders-totals-changelog-0"):
        check_whole([log], [piece], set())
    with pytest.raises(NoCut, match="was deleted while it was copied"):
        check_whole([log], [replace(piece, log_start_after=log.start + 1)], {CHANGELOG})
    holed = replace(log, ranges=(), gaps=(Gap(start=log.start, end=log.end, reason="deleted"),))
    with pytest.raises(NoCut, match="was deleted while it was copied"):
        check_whole([holed], [], {CHANGELOG})


def _elsewhere(tail: ArchivedTail) -> ArchivedTail:
    assert tail.copied.file is not None
    return replace(tail, copied=replace(tail.copied, file=replace(tail.copied.file, key="payments/segments/x.parquet")))
