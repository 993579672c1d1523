"""Applying and releasing holds. The hold log in the repository comes first and is what counts; the cluster is brought in line with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Literal

from streams_recovery.core import hold as holding
from streams_recovery.core.hold import HoldEntry, HoldPurpose, OutstandingHold, TopicHold
from streams_recovery.core.model import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.names import internal_role
from streams_recovery.workbench import Workbench

# windowstore.changelog.additional.retention.ms, by Kafka Streams' default.
_ADDITIONAL_RETENTION_MS = 86_400_000


def outstanding(bench: Workbench) -> tuple[OutstandingHold, ...]:
    """All holds in force on the application's topics, oldest first."""
    recent = list(itertools.takewhile(lambda entry: not entry.clear, bench.hold_log.read_back()))
    return holding.outstanding(reversed(recent))


def guard(bench: Workbench, run: str, descriptions: Iterable[TopicDescription]) -> tuple[str, ...]:
    """Keep the log cleaner away from every topic it may compact, and return their names. Topics under a restore's hold are guarded already.

    The record goes into the repository before the first topic is altered, so a crash at any point leaves something to release.
    """
    already = {held.hold.topic for held in outstanding(bench)}
    default_policy = bench.cluster.default_cleanup_policy()
    topics = [d for d in descriptions if d.name not in already and holding.needs_guard(d, default_policy)]
    if not topics:
        return ()
    settings = {d.name: holding.guard_settings(d.config) for d in topics}
    record(bench, "applied", HoldPurpose.COPY, run, tuple(holding.topic_hold(d, settings[d.name]) for d in topics))
    bench.cluster.alter_configs(settings)
    return tuple(settings)


def record(bench: Workbench, kind: Literal["applied", "released"], purpose: HoldPurpose, run: str, topics: tuple[TopicHold, ...]) -> None:
    """Add an entry to the hold log."""
    others = {(held.run, held.hold.topic) for held in outstanding(bench)} - {(run, topic.topic) for topic in topics}
    clear = kind == "released" and not others
    bench.hold_log.append(HoldEntry(kind=kind, purpose=purpose, run=run, at=bench.clock(), topics=topics, clear=clear))


def release(bench: Workbench, held: Iterable[OutstandingHold]) -> tuple[str, ...]:
    """Put back what these holds replaced and return the topics' names. Topics that are gone, or that are others under the same name, need
    nothing put back; their holds end all the same.
    """
    held = tuple(held)
    if not held:
        return ()
    existing = bench.cluster.describe_topics({item.hold.topic for item in held})
    changes = {
        item.hold.topic: item.hold.previous
        for item in held
        if item.hold.topic in existing and existing[item.hold.topic].topic_id == item.hold.topic_id
    }
    if changes:
        bench.cluster.alter_configs(changes)
    for (run, purpose), items in _by_run(held).items():
        record(bench, "released", purpose, run, tuple(items))
    return tuple(sorted(changes))


def release_copy_holds(bench: Workbench) -> tuple[str, ...]:
    """Release every compaction guard, also those that crashed runs left. Only for the holder of the application's lock: nobody else reads then."""
    return release(bench, [held for held in outstanding(bench) if held.purpose is HoldPurpose.COPY])


def release_restore_holds(bench: Workbench) -> tuple[str, ...]:
    """Release the restore holds that can go and name those that must stay. Repartition topics keep nothing that anybody needs twice, so theirs
    always go.
    """
    held = [item for item in outstanding(bench) if item.purpose is HoldPurpose.RESTORE]
    keep = {item.hold.topic for item in held if _would_expire(bench, item)}
    release(bench, [item for item in held if item.hold.topic not in keep])
    return tuple(sorted(keep))


def _would_expire(bench: Workbench, item: OutstandingHold) -> bool:
    final = {key: value for key, value in item.hold.previous.items() if value is not None}
    found = bench.cluster.describe_topics([item.hold.topic]).get(item.hold.topic)
    if found is None or found.topic_id != item.hold.topic_id or internal_role(found.name, bench.application_id) is TopicRole.REPARTITION:
        return False
    policy = {"cleanup.policy": found.config.get("cleanup.policy", bench.cluster.default_cleanup_policy()), **final}
    partitions = [TopicPartition(found.name, number) for number in range(found.partitions)]
    newest = bench.cluster.newest_timestamps(partitions)
    return any(holding.expires_on_release(newest[tp], policy, bench.clock(), _ADDITIONAL_RETENTION_MS) for tp in partitions)


def _by_run(held: Iterable[OutstandingHold]) -> dict[tuple[str, HoldPurpose], list[TopicHold]]:
    runs: dict[tuple[str, HoldPurpose], list[TopicHold]] = {}
    for item in held:
        runs.setdefault((item.run, item.purpose), []).append(item.hold)
    return runs
