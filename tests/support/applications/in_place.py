"""An application that goes back to a moment in place, and restores of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.retention import Pin, pinned
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import note
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, configured_for
from tests.support.applications.timed_inputs import FIRST, SECOND, ZERO, fresh, stamped
from tests.support.applications.topic_records import commit, produce
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import read
from tests.support.kafka.topic_settings import alter

SETTINGS = {"retention.ms": "-1", "unclean.leader.election.enable": "true", "max.message.bytes": "2000000"}


@dataclass(frozen=True)
class Here:
    """An application that had read two input records of eight at an early savepoint and seven at a late one, and another group that has read five."""

    small: Small
    reader: str
    early: str
    late: str

    @property
    def recovery(self) -> RecoveryContext:
        return self.small.recovery

    @property
    def input(self) -> TopicPartition:
        return self.small.input

    def request(self, at: int, by: CutBy = CutBy.TIMESTAMP, **changes: object) -> restore.RestoreRequest:
        wanted = {"as_of": AsOf(moment=ZERO + at, by=by), "in_place": True, "replace": True, "groups": (self.reader,)}
        return asked(self.recovery, **{**wanted, **changes})

    def times(self) -> list[int]:
        """Of all records in the input, in their order."""
        end = self.recovery.cluster.high_watermarks([self.input])[self.input]
        return [row[0] - ZERO for row in rows_in(read(self.recovery.connection, self.input, 0, end))] if end else []

    def topic_id(self) -> str:
        return self.recovery.cluster.describe_topics([self.input.topic])[self.input.topic].topic_id

    def kept(self) -> set[str]:
        return set(pinned(AppendLog(self.recovery.repository, self.recovery.layout.pins, Pin).read_all()))


@contextmanager
def application_here(small: Small) -> Iterator[Here]:
    """The application with both savepoints and the other group, which is gone at the end."""
    small = replace(
        small,
        recovery=configured_for(
            small,
            topics={"include": [small.input.topic]},
            restore={"producers_still_seconds": 1, "catch_up_timeout_seconds": 1},
        ),
    )
    recovery, reader = small.recovery, f"{small.recovery.application_id}.reader"
    fresh(recovery, small.input)
    alter(recovery.cluster, {small.input.topic: dict(SETTINGS)})
    stamped(recovery, small.input, FIRST)
    recovery.groups.set_offsets(recovery.application_id, {small.input: CommittedOffset(offset=2, metadata="AgAA", leader_epoch=None)})
    early = publish(small)
    stamped(recovery, small.input, SECOND)
    produce(recovery, small.changelog, 1)
    commit(recovery, {small.input: 7})
    late = publish(small)
    recovery.groups.set_offsets(reader, {small.input: CommittedOffset(offset=5, metadata="mine", leader_epoch=None)})
    yield Here(small, reader, early, late)
    recovery.groups.delete(reader)


def cut(here: Here, at: int = 40) -> restore.RestoreTicket:
    """A restore that has cut the input and set every offset."""
    ticket = opened(here.recovery, here.request(at))
    saved(here.recovery, ticket)
    loaded(here.recovery, ticket)
    note(here.recovery, ticket, Phase.VERIFIED)
    assert restore.set_offsets(here.recovery, ticket).groups == (here.reader,)
    return ticket


def closed(here: Here, at: int = 40) -> str:
    """The same, over. Its id."""
    ticket = cut(here, at)
    note(here.recovery, ticket, Phase.CLOSED)
    here.recovery.lock.release(ticket.lock)
    return ticket.restore_id


def opened_append(here: Here, restore_id: str = "latest") -> restore.AppendTicket:
    """What a restore in place took out, about to be appended again."""
    planned = restore.plan_append(here.recovery, restore_id)
    return restore.open_append(here.recovery, restore_id, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)
