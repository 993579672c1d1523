"""Restores in place leave the inputs as they are: what has become of those since the savepoint is looked at, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.processes import Processes
from streams_recovery.core.errors import NotExact, Refused
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.strategies import Earliest
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.operations import restore
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, configured, lose_state, reopened, small_application
from tests.support.applications.topic_records import commit, commit_with_epoch, produce, without_the_last_batch
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka


@pytest.mark.fault("F48")
def test_a_compacted_input_that_went_on_is_warned_of(small: Small) -> None:
    recovery = small.recovery
    publish(small)
    lose_state(small)
    plain = restore.plan(recovery, asked(recovery))
    assert not [told for told in plain.warnings if "compacted" in told], "nothing but tables is ever compacted"
    alter(recovery.cluster, {small.input.topic: {"cleanup.policy": "compact"}})
    produce(recovery, small.input, 2)
    planned = restore.plan(recovery, asked(recovery))
    (told,) = [told for told in planned.warnings if "compacted" in told]
    assert f"{small.input.topic} is compacted and has changed since the savepoint ({small.input} offsets 4 to 6)" in told
    assert told in planned.text


def lose_the_end(small: Small, directory: Path, start: Callable[[], str]) -> None:
    """What an election of a replica that was behind does: records of the input that were acknowledged are gone."""
    log = next((directory / "broker" / "logs" / str(small.input)).glob("*.log"))
    Processes(directory / "processes").stop_all()
    log.write_bytes(without_the_last_batch(log.read_bytes()))
    start()


@pytest.mark.fault("F36")
@pytest.mark.deep
def test_an_input_that_lost_its_end_and_grew_past_it_again_is_refused(tmp_path: Path, own_broker: Callable[[], str]) -> None:
    with small_application(own_broker(), tmp_path, tidy=False) as small:
        for _ in range(3):
            produce(small.recovery, small.input, 2)  # a batch each
        commit(small.recovery, {small.input: 11})
        savepoint = publish(small)
        lose_the_end(small, tmp_path, own_broker)
        with reopened(small) as later:
            short = later.recovery.cluster.high_watermarks([later.input])[later.input]
            assert 0 < short < 11
            produce(later.recovery, later.input, 20)
            lose_state(later)
            with pytest.raises(Refused) as caught:
                restore.plan(later.recovery, asked(later.recovery, savepoint=savepoint))
            assert caught.value.facts["epoch_ends"] == {str(small.input): short}
            assert caught.value.facts["offsets"] == {str(small.input): 11}
            by_the_log = Earliest(text="earliest")
            given_up = restore.plan(later.recovery, asked(later.recovery, savepoint=savepoint, offsets=by_the_log))
            assert [told for told in given_up.warnings if f"end at {short}, before offset 11" in told]


@pytest.mark.fault("F36")
@pytest.mark.deep
def test_an_input_that_only_looks_like_its_archive_is_not_cut_in_place(tmp_path: Path, own_broker: Callable[[], str]) -> None:
    with small_application(own_broker(), tmp_path, tidy=False, topics={"include": ["*.in"]}) as small:
        for _ in range(3):
            produce(small.recovery, small.input, 2)  # a batch each
        commit(small.recovery, {small.input: 9})
        archive = small.recovery.savepoints.read(publish(small))
        lose_the_end(small, tmp_path, own_broker)
        with reopened(small) as later:
            recovery = replace(later.recovery, config=configured(later.recovery, restore={"producers_still_seconds": 1}))
            produce(recovery, small.input, 2)
            assert recovery.cluster.high_watermarks([small.input]) == {small.input: 11}, "as long as its archive"
            request = asked(recovery, as_of=AsOf(moment=archive.captured_at, by=CutBy.TIMESTAMP), in_place=True, replace=True)
            with pytest.raises(Refused, match="other records than") as caught:
                restore.plan(recovery, request)
            assert [problem.startswith(f"{small.input} ") and "end at 9," in problem for problem in caught.value.facts["problems"]] == [
                True
            ]


@pytest.mark.fault("F36")
@pytest.mark.deep
def test_an_offset_whose_log_lost_its_end_and_grew_past_it_again_before_the_savepoint_is_never_exact(
    tmp_path: Path, own_broker: Callable[[], str]
) -> None:
    with small_application(own_broker(), tmp_path, tidy=False) as small:
        for _ in range(3):
            produce(small.recovery, small.input, 2)  # a batch each
        described = small.recovery.cluster.describe_topics([small.input.topic])[small.input.topic]
        commit_with_epoch(small.recovery, small.input, 11, described.leader_epochs[0])
        lose_the_end(small, tmp_path, own_broker)
        with reopened(small) as later:
            produce(later.recovery, later.input, 20)
            with pytest.raises(NotExact) as caught:
                publish(later)
            assert caught.value.facts["past_end"] == [str(small.input)]
            commit(later.recovery, {later.input: 11})
            publish(later)  # without an epoch nothing shows it
