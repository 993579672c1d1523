"""Advice about one application: what is looked up for it, and what the rules say. Changes nothing, and reads settings and the ends of logs only."""

from __future__ import annotations

from collections.abc import Iterable

from streams_recovery.config.pauses import longest_pause
from streams_recovery.core.kafka_types import QuiesceMode, TopicPartition
from streams_recovery.core.preflight.facts import TopicFacts
from streams_recovery.core.status.advice import advise
from streams_recovery.core.status.advice.facts import AdviceFacts, AdviceTopic
from streams_recovery.core.status.finding import StatusFinding
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.preflight import topics_as_they_are


def advice(recovery: RecoveryContext) -> tuple[StatusFinding, ...]:
    """What makes a recovery of the application slow or impossible, the worst first. Raises what asking the cluster raises."""
    docs = recovery.config.monitor.docs
    return tuple(one.with_docs_at(docs) for one in advise(advice_facts(recovery)))


def advice_facts(recovery: RecoveryContext) -> AdviceFacts:
    """What the rules need."""
    config, cluster = recovery.config, recovery.cluster.facts()
    topics, unreadable = topics_as_they_are(recovery)
    own, instances = config.application, config.runs.process.instances if config.runs.kind == "process" and config.runs.process else ()
    return AdviceFacts(
        application_id=recovery.application_id,
        bootstrap_servers=recovery.connection.bootstrap_servers,
        topics=_with_sizes(recovery, topics),
        unreadable=unreadable,
        broker_ids=recovery.cluster.broker_ids(),
        broker=cluster.settings,
        interval_seconds=longest_pause(config.backup.schedule),
        down_seconds=longest_pause(config.run.schedule),
        guarantee=own.guarantee,
        commit_interval_ms=int(own.commit_interval_seconds * 1000),
        capture_seconds=float(config.backup.consistency.timeout_seconds),
        standbys=own.standby_replicas,
        pauses=config.quiesce_mode is QuiesceMode.PAUSE,
        session_timeout_ms=own.session_timeout_ms,
        state_directories=tuple(instance.state_directory for instance in instances),
        streams=own.streams_config,
    )


def _with_sizes(recovery: RecoveryContext, topics: Iterable[TopicFacts]) -> tuple[AdviceTopic, ...]:
    found = list(topics)
    partitions = [TopicPartition(topic.name, number) for topic in found for number in range(topic.partitions)]
    starts = recovery.cluster.log_starts(partitions) if partitions else {}
    ends = recovery.cluster.high_watermarks(partitions) if partitions else {}
    replicas = recovery.cluster.replicas([topic.name for topic in found])
    declared = recovery.config.declared(recovery.config.backup.profile)
    return tuple(
        AdviceTopic(
            name=topic.name,
            role=topic.role,
            archived=declared.archives(topic.name, topic.role),
            settings=owner_config(topic.settings),
            offsets=tuple(max(0, ends[tp] - starts[tp]) for tp in partitions if tp.topic == topic.name),
            replicas=tuple(replicas.get(tp, ()) for tp in partitions if tp.topic == topic.name),
        )
        for topic in found
    )
