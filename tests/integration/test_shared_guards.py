"""Applications whose savepoints overlap on a compacted topic that several of them read, each with a repository of its own."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from streams_recovery.core.errors import GuardLost
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.topic_holds.compaction_guard import (
    FORGOTTEN_DAYS,
    MAX_COMPACTION_LAG,
    MIN_COMPACTION_LAG,
    free_marks,
    guard_on,
    joined,
    left,
    marked,
    owner_config,
)
from streams_recovery.operations import savepoint
from streams_recovery.operations.savepoint.values import Ticket
from tests.support.applications.savepoint_steps import begun, copy, cut, take
from tests.support.applications.small import Small, reopened, rows_of, small_application
from tests.support.kafka.cleaner import EAGER, ROWS, await_cleaner, updated
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka

OWNER = {"cleanup.policy": "compact", "min.compaction.lag.ms": "7", "max.compaction.lag.ms": "600000"}
TODAY = 20_778


@dataclass(frozen=True)
class Shared:
    """A compacted topic, and applications that read it as a global table."""

    table: TopicPartition
    applications: tuple[Small, ...]

    @property
    def overrides(self) -> dict[str, str]:
        return overrides_of(self.applications[0], self.table.topic)

    @property
    def guarded(self) -> bool:
        return guard_on(self.overrides) is not None


@pytest.fixture
def shared(bootstrap: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shared]:
    table = TopicPartition(f"customers{uuid.uuid4().hex[:8]}", 0)
    with ExitStack() as stack:
        found = []
        for number in range(2):
            place = tmp_path / str(number)
            place.mkdir()
            name = f"shares{number}{uuid.uuid4().hex[:8]}"
            topics = {"globals": [table.topic], "include": [table.topic]}
            found.append(stack.enter_context(small_application(bootstrap, place, name=name, topics=topics)))
        cluster = found[0].recovery.cluster
        cluster.create_topic(table.topic, partitions=1, replication_factor=1, config=getattr(request, "param", OWNER))
        yield Shared(table, tuple(found))
        cluster.delete_topics([table.topic])


def overrides_of(application: Small, topic: str) -> dict[str, str]:
    return application.recovery.cluster.describe_topics([topic])[topic].config


def end(application: Small, ticket: Ticket) -> None:
    savepoint.finish(application.recovery, ticket)


@pytest.mark.fault("F24")
@pytest.mark.parametrize("first", [0, 1])
def test_the_guard_stays_until_the_last_has_finished_and_then_the_owner_s_settings_are_back(shared: Shared, first: int) -> None:
    tickets = [begun(application.recovery) for application in shared.applications]
    assert shared.guarded
    end(shared.applications[first], tickets[first])
    assert shared.guarded, "the other one still copies"
    end(shared.applications[1 - first], tickets[1 - first])
    assert shared.overrides == OWNER


@pytest.mark.deep
@pytest.mark.fault("F24")
@pytest.mark.parametrize("shared", [EAGER], indirect=True)
def test_what_the_other_one_finishes_first_is_not_compacted_under_the_reader(shared: Shared) -> None:
    """The keys of a table are updated right after the cut. Once the cleaner may come, nothing of what the cut had of them is left to be copied."""
    one, other = shared.applications
    recovery, table = other.recovery, shared.table
    ticket = begun(one.recovery)
    updated(recovery, table)

    def meanwhile() -> None:
        end(one, ticket)
        updated(recovery, table)
        await_cleaner(recovery)

    summary = take(other, after_cut=meanwhile)
    assert summary.consistency is Consistency.EXACT
    rows = rows_of(recovery, recovery.savepoints.read(summary.savepoint_id), table)
    assert len(rows) == ROWS
    assert shared.overrides == EAGER


@pytest.mark.deep
def test_a_manifest_has_the_owner_s_settings_whoever_guards_the_topic(shared: Shared) -> None:
    one, other = shared.applications
    ticket = begun(one.recovery)
    [settings] = [topic.config for topic in cut(other.recovery).topics if topic.name == shared.table.topic]
    end(one, ticket)
    assert settings == OWNER


@pytest.mark.deep
@pytest.mark.fault("F24")
@pytest.mark.parametrize("now", [None, "60000"], ids=["removed", "set by its owner"])
def test_a_guard_that_was_taken_away_while_it_was_needed_ends_the_savepoint(shared: Shared, now: str | None) -> None:
    one, topic = shared.applications[0], shared.table.topic
    cluster = one.recovery.cluster
    with pytest.raises(GuardLost) as caught:
        take(one, after_cut=lambda: alter(cluster, {topic: {MIN_COMPACTION_LAG: now}}))
    assert caught.value.facts == {"topics": [topic]}
    assert one.recovery.savepoints.ids() == []
    assert shared.overrides == {key: value for key, value in {**OWNER, MIN_COMPACTION_LAG: now}.items() if value is not None}


@pytest.mark.deep
@pytest.mark.parametrize("shared", [{"cleanup.policy": "delete"}], indirect=True)
def test_a_policy_that_became_compaction_while_the_log_was_copied_ends_the_savepoint(shared: Shared) -> None:
    one, topic = shared.applications[0], shared.table.topic
    with pytest.raises(GuardLost, match=topic):
        take(one, after_cut=lambda: alter(one.recovery.cluster, {topic: {"cleanup.policy": "compact"}}))
    assert one.recovery.savepoints.ids() == []


@pytest.mark.deep
def test_a_guard_that_is_lost_before_the_cut_is_put_back(shared: Shared) -> None:
    one, topic = shared.applications[0], shared.table.topic
    ticket = begun(one.recovery)
    alter(one.recovery.cluster, {topic: {MIN_COMPACTION_LAG: None, MAX_COMPACTION_LAG: None}})
    taken = savepoint.capture(one.recovery, ticket, savepoint.quiesce(one.recovery, ticket))
    assert marked(shared.overrides, ticket.mark)
    savepoint.gather(one.recovery, ticket, *copy(one.recovery, ticket, taken))
    end(one, ticket)
    assert shared.overrides == {"cleanup.policy": "compact"}


@pytest.mark.deep
def test_whoever_comes_and_goes_at_the_same_moment_the_owner_s_settings_are_never_lost(shared: Shared) -> None:
    """A broker keeps what was written last, and nobody can ask for more than that. What may be left is a mark that nobody wants."""
    topic = shared.table.topic

    def often(number: int) -> None:
        dice = random.Random(number)
        with reopened(shared.applications[number % 2]) as mine:
            cluster = mine.recovery.cluster
            for _ in range(10):
                mark = dice.choice(free_marks([overrides_of(mine, topic)], TODAY))
                cluster.change_configs([topic], partial(joined, mark=mark, today=TODAY))
                assert owner_config(overrides_of(mine, topic)) == OWNER
                cluster.change_configs([topic], partial(left, mark=mark))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(often, range(4)))
    assert owner_config(shared.overrides) == OWNER
    cluster = shared.applications[0].recovery.cluster
    cluster.change_configs([topic], partial(joined, mark=1, today=TODAY + FORGOTTEN_DAYS))
    cluster.change_configs([topic], partial(left, mark=1))
    assert shared.overrides == OWNER
