"""What people are told to do about topics is done, as it is printed, with Kafka's own tools: the advice is gone, and the application comes back whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.config.application import Store
from streams_recovery.core.kafka_types import StoreKind, TopicRole
from streams_recovery.core.remedies.topics import smaller_segments
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.notices import advice, advice_facts
from tests.support.applications.shape_inputs import ZERO, Batches, part, questions
from tests.support.applications.shapes import Fleet, Shaped, shaped
from tests.support.kafka.three_brokers import ThreeBrokers
from tests.support.kafka.topic_settings import alter
from tests.support.programs.kafka_tools import follow

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1200)]

# Windows, tables, repartition topics, and a store whose history answers.
FLEET = Fleet(shapes=("versioned", "suppressed", "tables", "foreign"), threads=1)
DAY = 86_400_000
STORES = {
    "versioned-table": StoreKind.VERSIONED,
    "suppressed-minutes": StoreKind.WINDOW,
    **dict.fromkeys(("tables-inner", "tables-outer", "tables-joined-left"), StoreKind.KEY_VALUE),
}


def parts(number: int, *, last: bool = False) -> dict[str, Batches]:
    return {shape: part(shape, number, ZERO, last=last) for shape in FLEET.shapes}


def configured(recovery: RecoveryContext) -> RecoveryContext:
    """With the kinds of its stores, and a savepoint a month."""
    config = recovery.config
    stores = {name: Store(kind=kind) for name, kind in STORES.items()}
    backup = config.backup.model_copy(update={"schedule": "0 0 1 * *"})
    return replace(recovery, config=config.model_copy(update={"stores": {**config.stores, **stores}, "backup": backup}))


def found(recovery: RecoveryContext) -> dict[tuple[str, str], StatusFinding]:
    return {(one.kind, one.subject): one for one in advice(recovery)}


@pytest.mark.fault("F104")
@pytest.mark.remedy(
    "topic-policy",
    "topic-compaction-lag",
    "topic-retention",
    "topic-retention-bytes",
    "topic-repartition-retention",
    "topic-delete-retention",
    "topic-segments",
    "topic-election",
    "topic-min-insync",
    "topic-replicas",
)
def test_what_is_printed_about_topics_is_followed_and_all_state_comes_back(
    three: ThreeBrokers, tmp_path: Path, in_session: Submitter
) -> None:
    with shaped(three.bootstrap, tmp_path, FLEET, in_session) as app:
        app.recovery = recovery = configured(app.recovery)
        read, other, *_ = recovery.config.topics.inputs
        # The brokers ask for two replicas in sync, and these topics have one.
        alter(recovery.cluster, {topic: {"min.insync.replicas": "1"} for topic in recovery.config.topics.declared if topic != read})
        replicas(recovery, read, other, tmp_path)
        app.start()
        app.feed(parts(1))
        settings(app, read, other, tmp_path)
        app.savepoint()
        app.feed(parts(2))
        app.lose()
        assert app.restore().verdict is Verdict.EQUAL
        app.feed(parts(3, last=True))
        # Versions from before the disaster still answer.
        app.feed({"versioned": [questions(ZERO, 3)]})
        app.check()


def replicas(recovery: RecoveryContext, read: str, other: str, directory: Path) -> None:
    """Two topics with one replica: of one of them two were asked for, of the other one."""
    before = found(recovery)
    for cause in (("min-insync", read), ("replication", other)):
        follow(before[cause].remedies, directory)
    after = found(recovery)
    assert not {("min-insync", read), ("replication", read), ("replication", other)} & after.keys()
    # Three can now ask for two.
    follow(after["min-insync", other].remedies, directory)
    assert ("min-insync", other) not in found(recovery)
    assert {len(brokers) for brokers in recovery.cluster.replicas([read, other]).values()} == {3}
    settings = [name for topic in recovery.cluster.describe_topics([read, other]).values() for name in topic.config]
    assert not [name for name in settings if "throttled" in name], "the last command takes the limit away"


def settings(app: Shaped, read: str, other: str, directory: Path) -> None:
    recovery, me = app.recovery, app.recovery.application_id
    changelogs = {store: f"{me}-{store}-changelog" for store in STORES}
    # Its own lag, and no advice against it.
    topics = {topic.name: topic for topic in advice_facts(recovery).topics}
    versioned = topics[changelogs["versioned-table"]]
    assert (versioned.number("min.compaction.lag.ms") or 0) > DAY
    repartition = min(topic.name for topic in topics.values() if topic.role is TopicRole.REPARTITION)
    broken = {
        ("changelog-policy", changelogs["tables-inner"]): {"cleanup.policy": "delete"},
        ("changelog-policy", changelogs["suppressed-minutes"]): {"cleanup.policy": "delete"},
        ("compaction-lag", changelogs["tables-outer"]): {"min.compaction.lag.ms": str(3 * DAY)},
        ("replication", changelogs["tables-joined-left"]): {"min.insync.replicas": "1"},
        ("delete-retention", changelogs["tables-joined-left"]): {"delete.retention.ms": str(DAY)},
        ("repartition-retention", repartition): {"retention.ms": str(DAY)},
        ("unclean-election", other): {"unclean.leader.election.enable": "true"},
        ("input-retention", read): {"retention.ms": str(40 * DAY)},
    }
    for (_, topic), changed in broken.items():
        alter(recovery.cluster, {topic: changed})
    alter(recovery.cluster, {other: {"retention.bytes": str(10**10)}})
    before = found(recovery)
    assert broken.keys() <= before.keys()
    assert before["input-retention", other].remedies == (), "nothing else bounds it"
    assert ("compaction-lag", versioned.name) not in before
    for cause in broken:
        follow(before[cause].remedies, directory)
    # Now that its age bounds it, its size need not.
    alter(recovery.cluster, {other: {"retention.ms": str(93 * DAY)}})
    follow(found(recovery)["input-retention", other].remedies, directory)
    after = found(recovery)
    assert not broken.keys() & after.keys()
    assert ("input-retention", other) not in after
    large = topics[changelogs["tables-outer"]]
    follow(smaller_segments(recovery.connection.tools, large, size=64 << 20).commands, directory)
    now = {name: topic.config for name, topic in recovery.cluster.describe_topics([*changelogs.values()]).items()}
    assert now[changelogs["tables-inner"]]["cleanup.policy"] == "compact"
    assert now[changelogs["suppressed-minutes"]]["cleanup.policy"] == "compact,delete"
    assert now[changelogs["tables-outer"]]["segment.bytes"] == str(64 << 20)
    assert now[versioned.name]["min.compaction.lag.ms"] == versioned.settings["min.compaction.lag.ms"]
