"""Checks the settings and replicas of topics, existing ones and those that a restore would create."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streams_recovery.core.preflight.facts import (
    AUTO_CREATE,
    LOG_APPEND,
    MAX_MESSAGE,
    MIN_IN_SYNC,
    TIMESTAMP_TYPE,
    UNCLEAN,
    BrokerFacts,
    TopicFacts,
)
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity, warning
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.words import first_names


def partitions(
    manifest: Manifest, made: Mapping[str, TopicImage], existing: Mapping[str, TopicFacts], severity: PreflightSeverity
) -> list[PreflightFinding]:
    """Internal topics that have another number of partitions than in the savepoint."""
    return [
        PreflightFinding(
            severity=severity,
            kind="partitions",
            text=f"internal topic {name} has {found.partitions} partitions, {len(image.partitions)} in savepoint {manifest.savepoint_id}; "
            "the application that made it would stop at the restored one with `Existing internal topic has invalid partitions`",
            remedy="deploy the version of the application that the savepoint was taken of, and let the topic be replaced; or choose another savepoint",
        )
        for name, image in made.items()
        if image.role.internal and (found := existing.get(name)) is not None and found.partitions != len(image.partitions)
    ]


def too_few_brokers(cluster: BrokerFacts, replicas: Mapping[str, int]) -> list[PreflightFinding]:
    """Topics that need more replicas than there are running brokers."""
    wanted = max(replicas.values(), default=0)
    if wanted <= cluster.brokers:
        return []
    names = [name for name, factor in replicas.items() if factor > cluster.brokers]
    return [
        PreflightFinding(
            severity=PreflightSeverity.BLOCKING,
            kind="replication",
            text=f"{first_names(names)} had up to {wanted} replicas, and {cluster.brokers} brokers are up",
            remedy=f"bring up {wanted - cluster.brokers} more",
        )
    ]


def too_few_replicas(replicas: Mapping[str, int], settings: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    """Topics that no producer could write to, because they need more in-sync replicas than they have."""
    names = [name for name, factor in replicas.items() if _number(settings[name], MIN_IN_SYNC, 1) > factor]
    if not names:
        return []
    return [
        PreflightFinding(
            severity=PreflightSeverity.BLOCKING,
            kind="min-insync",
            text=f"{first_names(names)} would need more replicas in sync ({MIN_IN_SYNC}) than there are replicas: nothing could be written",
            remedy=f"lower {MIN_IN_SYNC} of the brokers, or restore a savepoint taken with enough replicas",
        )
    ]


def too_large(topics: Mapping[str, TopicImage], settings: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    """Records that may be too large for their topic. A manifest has only the average record size of each file; the largest record is at least that
    large. A broker checks the compressed size. Records that are too large even with zstd block, because a restore uses lz4. Others only give a
    warning.
    """
    found = []
    for name, topic in topics.items():
        limit = _number(settings[name], MAX_MESSAGE, 0)
        facts = [partition.ranges.facts for partition in topic.partitions]
        plain = max((one.payload_a_row for one in facts), default=0)
        packed = max((one.bytes_a_row for one in facts), default=0)
        if limit and plain > limit:
            fits = packed <= limit
            found.append(
                PreflightFinding(
                    severity=PreflightSeverity.WARNING if fits else PreflightSeverity.BLOCKING,
                    kind="record-size",
                    text=f"{name} has records of {plain} bytes and more, and will take {limit} ({MAX_MESSAGE})"
                    + (": they fit only as far as they can be compressed" if fits else ""),
                    remedy="raise message.max.bytes of the brokers",
                )
            )
    return found


def weak_topics(cluster: BrokerFacts, replicas: Mapping[str, int], settings: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    """Settings that can lose acknowledged records of these topics, or create wrong topics."""

    def having(holds: Callable[[str], bool]) -> list[str]:
        return [name for name in replicas if holds(name)]

    single = having(lambda name: replicas[name] == 1 and cluster.brokers > 1)
    thin = having(lambda name: replicas[name] > 1 and _number(settings[name], MIN_IN_SYNC, 2) == 1)
    unclean = having(lambda name: settings[name].get(UNCLEAN) == "true")
    checks = (
        (single, "has one replica: its state is lost with one disk", "raise replication.factor of the application's internal topics"),
        (thin, f"counts a record as written with one replica ({MIN_IN_SYNC}=1)", f"set {MIN_IN_SYNC}=2"),
        (unclean, f"may lose acknowledged records ({UNCLEAN}=true)", f"set {UNCLEAN}=false"),
    )
    found = [warning("durability", f"{first_names(names)} {what}", remedy) for names, what, remedy in checks if names]
    if cluster.settings.get(AUTO_CREATE) == "true":
        found.append(
            warning(
                AUTO_CREATE,
                "the brokers create topics on first use: a client that comes too early makes one with the wrong partitions and settings",
                f"set {AUTO_CREATE}=false",
            )
        )
    return found


def replaced_times(changelogs: Mapping[str, Mapping[str, str]]) -> list[PreflightFinding]:
    """Changelogs in which the broker would replace the timestamps of restored records."""
    names = [name for name, settings in changelogs.items() if settings.get(TIMESTAMP_TYPE) == LOG_APPEND]
    if not names:
        return []
    what = f"{first_names(names)} replaces the times of records ({TIMESTAMP_TYPE}={LOG_APPEND}), and times are part of the state"
    return [warning("timestamps", what, f"set {TIMESTAMP_TYPE}=CreateTime")]


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else default
