"""What a run and a command tell of the savepoint that they took."""

from __future__ import annotations

import shutil
from dataclasses import replace

from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound
from streams_recovery.core.repository.publication import SavepointFacts, savepoint_facts
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import PublishedSavepoint
from streams_recovery.operations.status.first_savepoint import savepoint_lines
from tests.support.repository.golden import FIRST, SECOND, SECOND_AT, OpenGolden, root


def told(recovery: RecoveryContext, savepoint_id: str) -> list[str]:
    facts = codec.fields_of(SavepointFacts, savepoint_facts(recovery.savepoints.outline(savepoint_id)))
    numbers = {"new_records": 3, "fetched": 3, "tail_records": 0, "topics": 1, "warnings": ()}
    return list(savepoint_lines(recovery, PublishedSavepoint(**facts, manifest_key="m", **numbers)))


def unconnected() -> KafkaConnection:
    raise NotFound("no connection", next_step="none")


def test_of_the_first_savepoint_it_is_told_what_it_has_and_of_others_one_line(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    [line] = told(recovery, SECOND)
    assert line.startswith(f"savepoint {SECOND}: exact, ")
    shutil.rmtree(root(recovery) / "savepoints" / SECOND)
    lost = replace(recovery, cluster=KafkaCluster(unconnected, timeout=0.2), groups=ConsumerGroups(unconnected, timeout=0.2))
    [line, *more] = told(lost, FIRST)
    assert line.startswith(f"savepoint {FIRST}: exact, ")
    begins = ("it has: exact state", "it has not: ", "a restore takes: not known", "try that without touching anything: ")
    assert [begin for begin in begins if any(one.startswith(begin) for one in more)] == list(begins)
