"""Savepoints right after a restore: what the restore has loaded is left out of account by a record, and nothing that was written since."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.transforms.archived_state import StateLook
from streams_recovery.cli import runs
from streams_recovery.cli.context import Requester
from streams_recovery.cli.runner import Runner
from streams_recovery.core.archive.state import NoCut, StateTopics
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.named_transactions.way import CaptureWay, Condition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.application_logs import impatient_logs
from streams_recovery.kafka.named_transactions import impatient_named_logs
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import note
from streams_recovery.operations.savepoint_way import savepoint_way
from tests.support.applications.named_counts import Truth, named_counts, saved_logs
from tests.support.applications.named_recovery import ONE_INSTANCE, PATIENT, named_recovery, why_not
from tests.support.applications.named_recovery import saved as saved_by_names
from tests.support.applications.pair import Here
from tests.support.applications.restore_steps import loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, lose_state, small_application
from tests.support.applications.topic_records import produce, transaction

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def write_without_transaction(recovery: RecoveryContext, tp: TopicPartition) -> None:
    """A record of a program that is idempotent, as a restore is."""
    produce(recovery, tp, 1, **{"enable.idempotence": True})


def proven(small: Small) -> bool:
    recovery = small.recovery
    with impatient_logs(recovery.application_id, recovery.connection, recovery.cluster, recovery.clock, recovery.loads) as logs:
        return logs.all_transactional([small.changelog], [small.tail], recovery.cluster.high_watermarks([small.changelog, small.tail]))


@contextmanager
def brought_back(small: Small) -> Iterator[Callable[[], object]]:
    """A restore of its state up to its verification, and the step behind that. It is over at the end."""
    recovery = small.recovery
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    verified(recovery, ticket)
    yield lambda: restore.set_offsets(recovery, ticket)
    note(recovery, ticket, Phase.CLOSED)
    recovery.lock.release(ticket.lock)


def test_producers_of_a_restore_are_left_out_while_they_have_written_nothing_since_and_the_topic_is_the_same(
    tmp_path: Path, own_broker: Callable[[], str]
) -> None:
    with small_application(own_broker(), tmp_path, tidy=False) as small:
        recovery, state = small.recovery, [small.changelog, small.tail]
        publish(small)
        lose_state(small)
        with brought_back(small) as go_on:
            assert not proven(small), "as after a restore by an older release"
            go_on()
            (entry,) = recovery.loads()
            recorded = {TopicPartition(topic.topic, part.partition): part.end for topic in entry.topics for part in topic.partitions}
            assert recorded == recovery.cluster.high_watermarks(state)
            assert all(part.producers for topic in entry.topics for part in topic.partitions)
            assert proven(small), "nothing was appended"
            with transaction(recovery) as producer:
                producer.produce(small.changelog.topic, b"value", b"key", 0)
                producer.commit_transaction(30)
            own_broker()
            assert proven(small), "a leader that begins again remembers the same"
            write_without_transaction(recovery, small.tail)
            assert not proven(small)
        with brought_back(small) as go_on:
            assert not proven(small), "created again: the record is of another topic"
            go_on()
            go_on()
            assert len(recovery.loads()) == 3, "a step that is repeated records it again"
            assert proven(small)
            write_without_transaction(recovery, small.changelog)
            assert not proven(small)
        with brought_back(small) as go_on:
            write_without_transaction(recovery, small.changelog)
            go_on()
            assert [topic.topic for topic in recovery.loads()[0].topics] == [small.tail.topic], "it was written to before the record"
            assert not proven(small)


def test_a_restore_goes_on_where_nothing_can_be_recorded(small: Small, caplog: pytest.LogCaptureFixture) -> None:
    publish(small)
    lose_state(small)
    # No number is left behind it.
    small.recovery.repository.create(f"{small.recovery.layout.loaded}999999999999.json", b"{}")
    with brought_back(small) as go_on:
        go_on()
    assert "the producers of this restore count as others for a day" in caplog.text


def looked(recovery: RecoveryContext, base: Manifest) -> tuple[bool, bool]:
    """Whether a look of an archiver that proves all of the logs finds a cut: by names, and by readings at which nothing moved."""
    topics = StateTopics.of(base, ())
    internal = topics.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION)
    with impatient_named_logs(recovery.application_id, recovery.connection, recovery.cluster, recovery.clock, recovery.loads) as names:
        found = StateLook(
            logs=replace(names.logs, read=topics.partitions(TopicRole.INPUT, TopicRole.REPARTITION)),
            topics=topics,
            described=recovery.cluster.describe_topics(list(topics.ids)),
            before=dict.fromkeys(internal, (-1, None)),
        )

        def still() -> bool | None:
            try:
                return found.still(1) is not None
            except NoCut:
                return None

        return found.by_names(names, 1) is not None, bool(poll(still, seconds=30, interval=0.2))


def test_a_live_savepoint_right_after_a_restore_is_by_names_and_so_are_its_outputs_until_somebody_writes_without_transactions(
    bootstrap: str, tmp_path: Path
) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader:
        place, state = tmp_path / "instance", tmp_path / "state"
        verbs = {verb: [sys.executable, ONE_INSTANCE, str(place), verb, str(state)] for verb in ("status", "stop", "wipe")}
        verbs["start"] = [sys.executable, ONE_INSTANCE, str(place), "start", str(state), *counts.command(state)]
        with named_recovery(
            {"bootstrap.servers": bootstrap},
            counts.id,
            tmp_path,
            backup=PATIENT,
            runs={"kind": "command", "command": verbs},
            topics={"include": [counts.outputs[0].topic]},
        ) as recovery:
            with counts.feeding(100):
                recovery.application.start()
                counts.await_work(reader)
                before = saved_by_names(recovery)
                counts.await_more(reader)
                os.kill(int((place / "pid").read_text()), signal.SIGKILL)
            recovery.groups.wait_empty(counts.id, 60)
            recovery.cluster.delete_topics(sorted({tp.topic for tp in (*counts.changelogs, *counts.between, *counts.outputs)}))
            runner = Runner(recovery=recovery, submitter=Here(recovery), say=print)
            requester = Requester(run_id="lost", requested_by="test")
            runs.restore_in_place(runner, asked(recovery, savepoint=before.savepoint_id, replace=True), requester, approve=lambda _: True)
            assert savepoint_way(recovery).way is CaptureWay.NAMES
            after = saved_by_names(recovery)
            assert after.proof.names is not None
            assert {*counts.outputs} <= after.proof.names.logs.keys(), "they were loaded too"
            assert counts.await_end(reader)
            assert looked(recovery, after) == (True, True)
            truth = Truth.of(counts, reader)
            assert truth.wrong_state(after.committed(), saved_logs(recovery, after)) == []

            record, away = tmp_path / "repository" / counts.id / "loaded", tmp_path / "away"
            shutil.move(record, away)
            way = savepoint_way(recovery)
            assert (way.way, way.missing is not None and way.missing.condition) == (CaptureWay.LIVE, Condition.WRITERS)
            assert why_not(recovery) == "the changelog writers are not proven transactional", "as after a restore by an older release"
            shutil.move(away, record)

            write_without_transaction(recovery, counts.outputs[0])
            shared = saved_by_names(recovery).proof.names
            assert shared is not None
            assert shared.logs.keys() == after.proof.names.logs.keys() - {*counts.outputs}
            write_without_transaction(recovery, counts.changelogs[0])
            assert why_not(recovery) == "the changelog writers are not proven transactional"
            assert savepoint_way(recovery).way is CaptureWay.LIVE
            recovery.application.stop(timeout=60)
