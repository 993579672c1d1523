"""Single topics, brought back on a real broker while the state of the application stays as it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from streams_recovery.core.errors import ApplicationRunning, Damaged, NotFound, PrefixDiffers, Refused, StateDamaged, TargetNotEmpty
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.restore.single_topics import HowKnown, ReadOn
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import unfinished_restore
from tests.support.applications.restore_steps import checked, load, load_of
from tests.support.applications.savepoint_steps import publish, take
from tests.support.applications.single_topics import Row, archived, brought_back, committed, ended, opened, rows, running, topics
from tests.support.applications.small import Small, configured, small_application
from tests.support.kafka.consumers import member
from tests.support.kafka.records import write

T0 = 1_700_000_000_000
# What a careless tool loses: headers, a null value, a null header, an empty value, no key, timestamps out of order.
ROWS: list[Row] = [
    (T0 + 50, b"a", b"1", [("h", b"x"), ("h", None)]),
    (T0 + 10, b"a", None, None),
    (T0 + 90, None, b"", [("trace", b"\x00\xff")]),
    (T0 + 20, b"b", b"2", None),
]


@pytest.fixture
def app(small: Small) -> Small:
    """Its input and output are archived. The input no longer begins at offset 0, and has records of all shapes behind five plain ones: all but one are read."""
    recovery = replace(small.recovery, config=configured(small.recovery, topics={"include": [small.input.topic, small.output.topic]}))
    write(recovery.connection, small.input, ROWS)
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    [done] = admin.delete_records([ClientPartition(small.input.topic, 0, 2)]).values()
    done.result(30)
    recovery.groups.set_offsets(recovery.application_id, {small.input: CommittedOffset(offset=8, metadata="AgAA", leader_epoch=None)})
    return replace(small, recovery=recovery)


@pytest.mark.deep
def test_a_deleted_input_comes_back_record_by_record_and_the_application_goes_on_where_its_state_ends(app: Small) -> None:
    recovery, savepoint = app.recovery, publish(app)
    before = rows(recovery, app.input)
    others = recovery.cluster.describe_topics([app.output.topic, app.changelog.topic, app.tail.topic])
    recovery.cluster.delete_topics([app.input.topic])
    report = brought_back(recovery, topics(app))
    assert rows(recovery, app.input) == before
    assert len(before) == 7
    assert [row["value"] for row in before].count(None) == 1
    # Offsets 2 to 8 are 0 to 6 now, and 8 was to be read next.
    assert committed(app) == CommittedOffset(offset=6, metadata="AgAA", leader_epoch=None)
    assert (report.verdict, report.rows, report.savepoint_id, report.offsets) == (Verdict.EQUAL, 7, savepoint, 1)
    assert isinstance(report.part, TopicsPart)
    assert report.part.single.known == {app.input: HowKnown.UNMOVED}
    assert recovery.cluster.describe_topics(list(others)) == others, "nothing else was touched"
    kept, page = restore.evidence(recovery)
    assert kept == report
    assert "it stayed as it was" in page
    assert recovery.lock.holder() is None
    assert unfinished_restore(recovery) is None
    assert publish(app), "the next savepoint is taken as ever"


@pytest.mark.way("restore of single topics")
def test_as_a_copy_it_comes_back_beside_the_one_that_is_there_while_the_application_runs(app: Small) -> None:
    recovery, name = app.recovery, f"{app.input.topic}-copy"
    publish(app)
    before, copy = rows(recovery, app.input), TopicPartition(name, 0)
    runs = running(recovery)
    try:
        with member(recovery, recovery.application_id, app.input.topic):
            report = brought_back(runs, topics(app, new_name=name))
        assert rows(recovery, copy) == rows(recovery, app.input) == before
        assert (report.verdict, report.rows, report.offsets, report.still_held) == (Verdict.EQUAL, 7, 0, ())
        config = recovery.cluster.describe_topics([name])[name].config
        assert (config["retention.ms"], config["cleanup.policy"]) == ("-1", "delete")
        assert committed(app) == CommittedOffset(offset=8, metadata="AgAA", leader_epoch=None)
        with pytest.raises(TargetNotEmpty, match="is there already"):
            restore.plan(runs, topics(app, new_name=name))
    finally:
        recovery.cluster.delete_topics([name])


@pytest.mark.deep
def test_a_newer_savepoint_that_cannot_be_read_is_named_in_the_plan(app: Small) -> None:
    recovery = app.recovery
    first, second = publish(app), publish(app)
    request = topics(app, new_name=f"{app.input.topic}-copy")
    whole = restore.plan(recovery, request)
    assert (whole.savepoint_id, [told for told in whole.warnings if "passed over" in told]) == (second, [])
    broken(recovery, second)
    planned = restore.plan(recovery, request)
    [told] = [told for told in planned.warnings if "passed over" in told]
    assert (planned.savepoint_id, second in told, told in planned.text) == (first, True, True)
    broken(recovery, first)
    with pytest.raises(Damaged):
        restore.plan(recovery, request)


def broken(recovery: RecoveryContext, savepoint: str) -> None:
    """Its manifest can be read no more."""
    key = recovery.savepoints.key(savepoint)
    recovery.repository.delete([key])
    recovery.repository.create(key, b"{}")


@pytest.fixture
def dated(app: Small) -> Small:
    """Its input has four records of known times, of which one is read."""
    recovery = app.recovery
    recovery.cluster.delete_topics([app.input.topic])
    recovery.cluster.create_topic(app.input.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    write(recovery.connection, app.input, ROWS)
    recovery.groups.set_offsets(recovery.application_id, {app.input: CommittedOffset(offset=1, metadata="AgAA", leader_epoch=None)})
    return app


BY = [(CutBy.TIMESTAMP, [0, 1, 3]), (CutBy.POSITION, [0, 1])]


@pytest.mark.deep
@pytest.mark.parametrize(("by", "kept"), BY)
def test_as_of_a_moment_only_its_records_come_back(dated: Small, by: CutBy, kept: list[int]) -> None:
    recovery, name = dated.recovery, f"{dated.input.topic}-then"
    publish(dated)
    before = rows(recovery, dated.input)
    try:
        report = brought_back(recovery, topics(dated, new_name=name, cut_at=AsOf(moment=T0 + 60, by=by)))
        assert rows(recovery, TopicPartition(name, 0)) == [before[at] for at in kept]
        assert isinstance(report.part, TopicsPart)
        assert (report.rows, report.part.single.later) == (len(kept), 4 - len(kept))
    finally:
        recovery.cluster.delete_topics([name])


@pytest.mark.deep
@pytest.mark.parametrize(("by", "kept"), BY)
def test_in_place_a_moment_takes_what_was_not_processed_and_is_later(dated: Small, by: CutBy, kept: list[int]) -> None:
    recovery = dated.recovery
    publish(dated)
    before = rows(recovery, dated.input)
    recovery.cluster.delete_topics([dated.input.topic])
    brought_back(recovery, topics(dated, cut_at=AsOf(moment=T0 + 60, by=by)))
    assert rows(recovery, dated.input) == [before[at] for at in kept]
    assert committed(dated) == CommittedOffset(offset=1, metadata="AgAA", leader_epoch=None)


@pytest.mark.deep
def test_in_place_a_moment_before_what_was_processed_is_refused(dated: Small) -> None:
    recovery = dated.recovery
    recovery.groups.set_offsets(recovery.application_id, {dated.input: CommittedOffset(offset=3, metadata="", leader_epoch=None)})
    publish(dated)
    recovery.cluster.delete_topics([dated.input.topic])
    with pytest.raises(Refused, match="its state has what would be left out") as caught:
        restore.plan(recovery, topics(dated, cut_at=AsOf(moment=T0 + 60, by=CutBy.TIMESTAMP)))
    assert (caught.value.facts["read"], caught.value.facts["first_later"]) == (3, 2)
    with pytest.raises(Refused, match="is later"):
        restore.plan(recovery, topics(dated, cut_at=AsOf(moment=2 * T0, by=CutBy.TIMESTAMP)))


@pytest.fixture
def parts(app: Small) -> Small:
    """Its input has three partitions, all read."""
    recovery = app.recovery
    recovery.cluster.delete_topics([app.input.topic])
    recovery.cluster.create_topic(app.input.topic, partitions=3, replication_factor=1, config={"retention.ms": "604800000"})
    logs = [TopicPartition(app.input.topic, number) for number in range(3)]
    # Two days old, of the seven that the topic keeps them.
    now = recovery.clock() - 172_800_000
    for tp in logs:
        write(recovery.connection, tp, [(now + at, b"k%d" % tp.partition, b"%d" % at, None) for at in range(3 + tp.partition)])
    read = {tp: CommittedOffset(offset=3 + tp.partition, metadata="AgAA", leader_epoch=None) for tp in logs}
    recovery.groups.set_offsets(recovery.application_id, read)
    return app


def emptied(app: Small, partition: int, upto: int) -> None:
    admin = AdminClient({"bootstrap.servers": app.recovery.connection.bootstrap_servers, "log_level": 0})
    [done] = admin.delete_records([ClientPartition(app.input.topic, partition, upto)]).values()
    done.result(30)


@pytest.mark.deep
def test_its_settings_come_back_and_are_held_as_long_as_its_records_are_old(parts: Small) -> None:
    recovery, name = parts.recovery, parts.input.topic
    publish(parts)
    recovery.cluster.delete_topics([name])
    report = brought_back(recovery, topics(parts))
    assert (report.rows, report.still_held) == (12, (name,))
    here = recovery.cluster.describe_topics([name])[name].config
    assert owner_config(here) == {"retention.ms": "604800000"}
    assert here["retention.ms"] != "604800000", "in five days all would be gone"


@pytest.mark.deep
def test_an_emptied_partition_is_filled_again_behind_its_end_and_the_others_stay(parts: Small) -> None:
    recovery = parts.recovery
    publish(parts)
    logs = [TopicPartition(parts.input.topic, number) for number in range(3)]
    before = {tp: rows(recovery, tp) for tp in logs}
    here = recovery.cluster.describe_topics([parts.input.topic])[parts.input.topic]
    emptied(parts, 1, 4)
    with pytest.raises(TargetNotEmpty, match="hold records"):
        restore.plan(recovery, topics(parts))
    with pytest.raises(TargetNotEmpty, match="partitions hold records"):
        restore.plan(recovery, topics(parts, partitions=(0, 1)))
    report = brought_back(recovery, topics(parts, partitions=(1,)))
    assert {tp: rows(recovery, tp) for tp in logs} == before
    assert recovery.cluster.describe_topics([parts.input.topic])[parts.input.topic].topic_id == here.topic_id
    assert recovery.cluster.log_starts([logs[1]])[logs[1]] == 4, "they come behind what was there"
    found = recovery.groups.committed(recovery.application_id, logs)
    assert [one.offset for one in found.values() if one is not None] == [3, 8, 5], "that of the filled one is translated"
    assert (report.rows, report.verdict, [one.partition for one in report.topics[0].partitions]) == (4, Verdict.EQUAL, [1])


@pytest.mark.deep
def test_one_partition_of_a_copy_and_none_of_a_topic_that_is_gone(parts: Small) -> None:
    recovery, name = parts.recovery, f"{parts.input.topic}-two"
    publish(parts)
    try:
        report = brought_back(recovery, topics(parts, new_name=name, partitions=(2,)))
        logs = [TopicPartition(name, number) for number in range(3)]
        assert [len(rows(recovery, tp)) for tp in logs] == [0, 0, 5]
        assert rows(recovery, logs[2]) == rows(recovery, TopicPartition(parts.input.topic, 2))
        assert isinstance(report.part, TopicsPart)
        assert (report.rows, report.part.single.partitions) == (5, (2,))
    finally:
        recovery.cluster.delete_topics([name])
    recovery.cluster.delete_topics([parts.input.topic])
    with pytest.raises(NotFound, match="is gone: single partitions"):
        restore.plan(recovery, topics(parts, partitions=(2,)))


@pytest.mark.deep
def test_a_deleted_output_comes_back_and_no_offset_is_set(app: Small) -> None:
    recovery = app.recovery
    publish(app)
    before = rows(recovery, app.output)
    recovery.cluster.delete_topics([app.output.topic])
    report = brought_back(recovery, topics(app, app.output.topic))
    assert rows(recovery, app.output) == before
    assert (len(before), report.rows, report.offsets) == (4, 4, 0)
    assert committed(app) == CommittedOffset(offset=8, metadata="AgAA", leader_epoch=None)


def refusals(app: Small) -> dict[str, tuple[restore.RestoreTopics, type[Exception], str]]:
    gone = f"{app.recovery.application_id}.other"
    return {
        "state": (topics(app, app.changelog.topic), Refused, "state is one piece"),
        "a repartition topic": (topics(app, app.tail.topic), Refused, "state is one piece"),
        "unknown": (topics(app, gone), Refused, "does not know"),
        "two under one name": (topics(app, app.input.topic, app.output.topic, new_name="x"), Refused, "only one topic at a time"),
        "its own name": (topics(app, new_name=app.output.topic), Refused, "is a topic of"),
        "a name of state": (topics(app, new_name=f"{app.recovery.application_id}-x-changelog"), Refused, "would be taken for state"),
        "no such partition": (topics(app, partitions=(7,)), Refused, "and no 7"),
        "it is there": (topics(app), TargetNotEmpty, "hold records"),
    }


@pytest.mark.deep
@pytest.mark.parametrize(
    "what",
    [
        "state",
        "a repartition topic",
        "unknown",
        "two under one name",
        "its own name",
        "a name of state",
        "no such partition",
        "it is there",
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(app: Small, what: str) -> None:
    recovery = app.recovery
    publish(app)
    before = recovery.cluster.describe_topics(app.topics)
    request, error, why = refusals(app)[what]
    with pytest.raises(error, match=why):
        restore.plan(recovery, request)
    assert recovery.cluster.describe_topics(app.topics) == before
    assert recovery.lock.holder() is None


@pytest.mark.deep
def test_a_topic_whose_records_are_not_archived_is_refused(small: Small) -> None:
    publish(small)
    small.recovery.cluster.delete_topics([small.input.topic])
    with pytest.raises(Refused, match="are not archived"):
        restore.plan(small.recovery, topics(small))


@pytest.mark.deep
def test_a_running_application_gets_none_of_its_own_topics_back(app: Small) -> None:
    publish(app)
    app.recovery.cluster.delete_topics([app.input.topic])
    with pytest.raises(ApplicationRunning, match=r"one \(pid 1\)"):
        restore.plan(running(app.recovery), topics(app))
    assert restore.plan(app.recovery, topics(app)).rows == 7


@pytest.mark.deep
def test_nor_does_one_of_which_only_a_member_of_its_group_tells_that_it_runs(app: Small) -> None:
    recovery = app.recovery
    publish(app)
    recovery.cluster.delete_topics([app.input.topic])
    ticket = opened(recovery, topics(app))
    with member(recovery, recovery.application_id, app.output.topic), pytest.raises(ApplicationRunning, match="it-member"):
        restore.prepare_topics(recovery, ticket)
    assert app.input.topic not in recovery.cluster.topic_names()
    with member(recovery, recovery.application_id, app.output.topic), pytest.raises(ApplicationRunning, match="it-member"):
        restore.plan(recovery, topics(app))


@pytest.mark.deep
def test_offsets_that_nothing_proves_are_refused_until_somebody_chooses(app: Small) -> None:
    recovery = app.recovery
    publish(app)
    # It has processed the last record since, and nobody has written down that it did.
    write(recovery.connection, app.changelog, [(T0, b"k", b"v", None)])
    recovery.cluster.delete_topics([app.input.topic])
    with pytest.raises(Refused, match="offsets 8 to 8 may be processed or not") as caught:
        restore.plan(recovery, topics(app))
    assert caught.value.facts["spans"] == {str(app.input): (8, 9)}
    assert f"{app.changelog} ended at" in " ".join(caught.value.facts["moved"])
    chosen = {how: restore.plan(recovery, topics(app, read_on=how)).offsets[0].wanted for how in (ReadOn.SAVEPOINT, ReadOn.END)}
    assert {how: (one.offset, one.metadata) for how, one in chosen.items()} == {ReadOn.SAVEPOINT: (6, "AgAA"), ReadOn.END: (7, "")}


@pytest.mark.deep
def test_what_a_later_savepoint_says_counts_although_the_records_come_from_an_older_one(app: Small) -> None:
    recovery, older = app.recovery, publish(app)
    recovery.groups.set_offsets(recovery.application_id, {app.input: CommittedOffset(offset=9, metadata="AgAB", leader_epoch=None)})
    take(app)
    write(recovery.connection, app.changelog, [(T0, b"k", b"v", None)])
    recovery.cluster.delete_topics([app.input.topic])
    planned = restore.plan(recovery, topics(app, savepoint=older))
    assert [(one.wanted.offset, one.wanted.metadata) for one in planned.offsets] == [(7, "AgAB")]
    assert isinstance(planned.part, TopicsPart)
    assert planned.part.single.known == {app.input: HowKnown.ALL_READ}


@pytest.mark.deep
def test_other_groups_are_named_with_where_they_would_go_on_and_left_alone(app: Small) -> None:
    recovery, other = app.recovery, f"{app.recovery.application_id}-billing"
    recovery = replace(recovery, config=configured(recovery, groups={"include": [other]}))
    app = replace(app, recovery=recovery)
    recovery.groups.set_offsets(other, {app.input: CommittedOffset(offset=5, metadata="", leader_epoch=None)})
    publish(app)
    recovery.cluster.delete_topics([app.input.topic])
    recovery.groups.delete(other)
    planned = restore.plan(recovery, topics(app))
    assert [(one.group, one.before, one.there, one.saved) for one in planned.observed.readers] == [(other, 5, 3, True)]
    assert f"| {other} | {app.input} | 5 at the savepoint | 3 |" in planned.text
    brought_back(recovery, topics(app))
    assert recovery.groups.last_committed(other) == {}


@pytest.mark.deep
def test_a_group_that_kept_its_offset_is_named_too(app: Small) -> None:
    recovery, other = app.recovery, f"{app.recovery.application_id}-late"
    publish(app)
    # Emptied, not deleted: every group still has its offsets.
    emptied(app, 0, 9)
    recovery.groups.set_offsets(other, {app.input: CommittedOffset(offset=6, metadata="", leader_epoch=None)})
    planned = restore.plan(recovery, topics(app))
    assert [(one.group, one.before, one.there, one.saved) for one in planned.observed.readers] == [(other, 6, 4, False)]
    assert isinstance(planned.part, TopicsPart)
    assert planned.part.single.known == {app.input: HowKnown.COMMITTED}
    recovery.groups.delete(other)


@pytest.mark.deep
def test_a_load_that_was_killed_goes_on_behind_what_it_wrote(app: Small) -> None:
    recovery = app.recovery
    publish(app)
    before = rows(recovery, app.input)
    recovery.cluster.delete_topics([app.input.topic])
    ticket = opened(recovery, topics(app))
    restore.prepare_topics(recovery, ticket)
    whole = restore.plan_load(recovery, ticket)
    first = recovery.cluster.describe_topics([app.input.topic])[app.input.topic].topic_id
    write(recovery.connection, app.input, archived(recovery, whole)[:3])
    left = restore.abandon(recovery, ticket)
    assert left.next_step.startswith("do not start the application")
    with pytest.raises(Refused, match="its state is no savepoint"):
        publish(app)
    again = restore.resume(recovery, ticket.restore_id, run_id="again", approved_hash=ticket.plan_hash, take_over=False)
    summary = checked(recovery, again, load(recovery, restore.plan_load(recovery, again)))
    assert (summary.rows, summary.present) == (7, 3)
    ended(recovery, again)
    assert rows(recovery, app.input) == before
    assert recovery.cluster.describe_topics([app.input.topic])[app.input.topic].topic_id == first
    assert load_of(again) is not None


@pytest.mark.deep
def test_a_producer_that_writes_meanwhile_is_never_taken_for_the_archive(app: Small) -> None:
    recovery = app.recovery
    publish(app)
    recovery.cluster.delete_topics([app.input.topic])
    ticket = opened(recovery, topics(app))
    restore.prepare_topics(recovery, ticket)
    write(recovery.connection, app.input, [(T0, b"new", b"only copy", None)])
    with pytest.raises(PrefixDiffers, match="is not the beginning of what belongs there"):
        load(recovery, restore.plan_load(recovery, ticket))
    assert [row["value"] for row in rows(recovery, app.input)] == [b"only copy"]


@pytest.mark.deep
def test_a_copy_that_failed_keeps_nobody_from_a_savepoint_and_is_resumed_by_its_id(app: Small) -> None:
    recovery, name = app.recovery, f"{app.input.topic}-copy"
    publish(app)
    try:
        ticket = opened(recovery, topics(app, new_name=name))
        restore.prepare_topics(recovery, ticket)
        left = restore.abandon(recovery, ticket)
        assert left.commands
        assert publish(app)
        again = restore.resume(recovery, ticket.restore_id, run_id="again", approved_hash=ticket.plan_hash, take_over=False)
        checked(recovery, again, load(recovery, restore.plan_load(recovery, again)))
        assert ended(recovery, again).rows == 7
        assert rows(recovery, TopicPartition(name, 0)) == rows(recovery, app.input)
    finally:
        recovery.cluster.delete_topics([name])


@pytest.mark.deep
def test_state_that_is_lost_after_a_topic_came_back_is_still_found(app: Small) -> None:
    recovery = app.recovery
    publish(app)
    recovery.cluster.delete_topics([app.input.topic])
    brought_back(recovery, topics(app))
    recovery.cluster.delete_topics([app.changelog.topic])
    recovery.cluster.create_topic(app.changelog.topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    with pytest.raises(StateDamaged, match="was created again"):
        publish(app)


@pytest.mark.deep
def test_local_state_is_wiped_only_where_it_notes_offsets_of_the_topic(bootstrap: str, tmp_path: Path) -> None:
    wiped = tmp_path / "wiped"
    program = [sys.executable, "-c", f"open({str(wiped)!r}, 'a').write('x'); print('{{\"removed\": [\"one\"], \"remaining\": []}}')"]
    with small_application(bootstrap, tmp_path, programs={"wipe": program}) as small:
        included = configured(small.recovery, topics={"include": [small.input.topic]})
        app = replace(small, recovery=replace(small.recovery, config=included))
        publish(app)
        app.recovery.cluster.delete_topics([app.input.topic])
        brought_back(app.recovery, topics(app))
        assert not wiped.exists()
        declared = configured(app.recovery, stores={"table": {"kind": "key-value", "source": app.input.topic}})
        app = replace(app, recovery=replace(app.recovery, config=declared))
        app.recovery.cluster.delete_topics([app.input.topic])
        planned = restore.plan(app.recovery, topics(app))
        assert "**Wipe** the local state" in planned.text
        brought_back(app.recovery, topics(app))
        assert wiped.read_text() == "x"
