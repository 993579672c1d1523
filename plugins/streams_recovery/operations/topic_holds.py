"""Applying and releasing holds. The hold log in the repository comes first: it names the topics whose settings may be ours to put back.

The log is data, and a stranger may have written it. So no value from it is ever set on a topic. The values that are put back come from the topic's own
settings, for the application's own topics only, and only if these settings are those of a hold.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from functools import partial
from typing import Literal

from streams_recovery.core.errors import GuardLost, Refused, TransientError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.topic_holds import compaction_guard as guarding
from streams_recovery.core.topic_holds import log as holding
from streams_recovery.core.topic_holds.log import HoldEntry, HoldPurpose, OutstandingHold, TopicHold
from streams_recovery.core.topic_settings import deletes_above, deletes_after
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import known_topics

LOGGER = logger("streams_recovery.operations.topic_holds")

# windowstore.changelog.additional.retention.ms, by Kafka Streams' default.
_ADDITIONAL_RETENTION_MS = DAY_MS
_NAMED = 5
# An application that is away for longer has its topics at home replaced when it comes back.
_ELSEWHERE_DAYS = 90


def outstanding(recovery: RecoveryContext) -> tuple[OutstandingHold, ...]:
    """All holds in force on the application's topics, oldest first. An unreadable entry is passed over: the hold itself is in the topics' settings, and one
    strange object must not end all savepoints.
    """
    recent = list(itertools.takewhile(lambda entry: not entry.clear, recovery.hold_log.readable_back()))
    return holding.outstanding(reversed(recent))


def guard(recovery: RecoveryContext, run: str, descriptions: Iterable[TopicDescription]) -> int:
    """Keep the log cleaner away from every topic it may compact, and return the mark that ``run`` has on their guards: others may guard the same
    topics, from other repositories too.

    The record goes into the repository before the first topic is altered, so a crash at any point leaves something to release. Raises
    ``TransientError`` when too many others guard one of the topics.
    """
    descriptions = tuple(descriptions)
    free = guarding.free_marks((topic.config for topic in descriptions), _today(recovery))
    if not free:
        raise TransientError(
            f"{len(guarding.COPY_MARKS)} other savepoints copy topics of {recovery.application_id} now, and no more can guard them at once",
            next_step="try again when some of them have finished",
        )
    mark = random.choice(free)  # noqa: S311  # so that two who choose at the same moment rarely choose the same
    keep_guard(recovery, run, mark, descriptions)
    return mark


def keep_guard(recovery: RecoveryContext, run: str, mark: int, descriptions: Iterable[TopicDescription]) -> None:
    """Guard those of the topics that have no mark of ``run`` on a guard: new topics, and those whose guard was removed or overwritten. Only before the first of
    them is read.
    """
    topics = guarding.unguarded(descriptions, mark, recovery.cluster.default_cleanup_policy())
    if topics:
        record(
            recovery,
            "applied",
            HoldPurpose.COPY,
            run,
            mark,
            tuple(TopicHold(topic=topic.name, topic_id=topic.topic_id) for topic in topics),
        )
        recovery.cluster.change_configs([topic.name for topic in topics], partial(guarding.joined, mark=mark, today=_today(recovery)))


def require_guard(recovery: RecoveryContext, mark: int, topics: Iterable[str]) -> None:
    """Raise ``GuardLost`` unless the cleaner was kept away from these topics until now, as far as their settings tell."""
    found = recovery.cluster.describe_topics(list(topics))
    lost = guarding.unguarded(found.values(), mark, recovery.cluster.default_cleanup_policy())
    if lost:
        settings = {topic.name: {key: topic.config.get(key) for key in guarding.GUARD_SETTINGS} for topic in lost}
        raise GuardLost(
            f"the compaction guard of {', '.join(settings)} was removed while they were copied, so records may be missing from the copy; their "
            f"settings are {settings} now",
            next_step="find out who sets these topics' settings while a savepoint is taken, then run the savepoint again",
            topics=sorted(settings),
        )


def _today(recovery: RecoveryContext) -> int:
    return recovery.clock() // DAY_MS


def record(
    recovery: RecoveryContext,
    kind: Literal["applied", "released"],
    purpose: HoldPurpose,
    run: str,
    mark: int,
    topics: tuple[TopicHold, ...],
) -> None:
    """Add an entry to the hold log."""
    others = {(held.run, held.hold) for held in outstanding(recovery)} - {(run, topic) for topic in topics}
    clear = kind == "released" and not others
    entry = HoldEntry(kind=kind, purpose=purpose, run=run, at=recovery.clock(), mark=mark, topics=topics, clear=clear)
    recovery.hold_log.append(entry)


def release(recovery: RecoveryContext, held: Iterable[OutstandingHold]) -> tuple[str, ...]:
    """End these holds, put the owners' settings back on topics without another guard, and return the topics' names. Topics that are gone, or were created
    again, need nothing put back. A hold on a topic that is not the application's own is logged, and the topic stays as it is; a copy's hold stays on record as
    long as ``_for_later`` says.
    """
    held = tuple(held)
    own = _own(recovery, held)
    there = _there(recovery, own)
    # Settings first, the record after them: killed in between, the next release finds the hold and has nothing left to change.
    for (_, purpose, mark), topics in _by_run(there).items():
        recovery.cluster.change_configs([topic.topic for topic in topics], holding.change_of_release(purpose, mark))
    later = _for_later(recovery, set(held).difference(own)) | _elsewhere(recovery, set(own).difference(there))
    for (run, purpose, mark), topics in _by_run(item for item in held if item not in later).items():
        record(recovery, "released", purpose, run, mark, tuple(topics))
    return tuple(sorted({item.hold.topic for item in there}))


def release_copy_holds(recovery: RecoveryContext) -> tuple[str, ...]:
    """Release every compaction guard, also those that crashed runs left. Only for the holder of the application's lock: then no other run reads."""
    return release(recovery, [held for held in outstanding(recovery) if held.purpose is HoldPurpose.COPY])


def release_restore_holds(recovery: RecoveryContext) -> tuple[str, ...]:
    """Release the restore holds that can go and name those that must stay. Records of repartition topics are never needed twice, so their holds always go. A
    hold on a topic that is not the application's own stays on record: a live clone has other outputs than before.
    """
    held = _own(recovery, [item for item in outstanding(recovery) if item.purpose is HoldPurpose.RESTORE])
    found = _there(recovery, held)
    defaults = recovery.cluster.topic_defaults() if found else ()
    keep = {item.hold.topic for item, topic in found.items() if _would_expire(recovery, item, topic, defaults)}
    release(recovery, [item for item in held if item.hold.topic not in keep])
    return tuple(sorted(keep))


def about_to_expire(recovery: RecoveryContext, topics: Iterable[str]) -> tuple[str, ...]:
    """Sentences about records that the retention of their topic may delete from now on, of topics of which each record counts."""
    found = recovery.cluster.describe_topics([name for name in topics if recovery.config.internal_role(name) is None])
    now, sentences = recovery.clock(), []
    for name, topic in sorted(found.items()):
        in_force = {key: setting.value for key, setting in topic.in_force.items()}
        if (limit := deletes_above(in_force)) is not None and (largest := max(_sizes(recovery, topic).values(), default=0)) > limit:
            sentences.append(
                f"{name}: a partition has {largest:,} bytes, more than retention.bytes={limit}: the broker may delete its oldest records from now on"
            )
        kept = deletes_after(in_force)
        old = 0 if kept is None else sum(_records_before(recovery, topic, max(now - kept, 0)).values())
        if old:
            sentences.append(
                f"{name}: {old:,} offsets at its beginning are older than retention.ms={kept}: the broker may delete them from now on"
            )
    return tuple(sentences)


def _records_before(recovery: RecoveryContext, topic: TopicDescription, moment: int) -> dict[TopicPartition, int]:
    """How many offsets each partition begins with before the first record of ``moment`` or later."""
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    starts, ends = recovery.cluster.log_starts(partitions), recovery.cluster.high_watermarks(partitions)
    later = recovery.cluster.offsets_for_times(partitions, moment)
    return {tp: max((ends[tp] if (first := later[tp]) is None else first) - starts[tp], 0) for tp in partitions}


def _would_expire(recovery: RecoveryContext, held: OutstandingHold, topic: TopicDescription, defaults: Iterable[dict[str, str]]) -> bool:
    role, defaults = recovery.config.internal_role(topic.name), tuple(defaults)
    if role is TopicRole.REPARTITION:
        return False
    owner = guarding.owner_config(topic.config)
    newest = recovery.cluster.newest_timestamps([TopicPartition(topic.name, number) for number in range(topic.partitions)])
    finals = [{**default, **owner} for default in defaults]
    if any(
        holding.expires_on_release(timestamp, final, recovery.clock(), _ADDITIONAL_RETENTION_MS)
        for final in finals
        for timestamp in newest.values()
    ):
        return True
    if _is_too_large(recovery, held, topic, finals):
        return True
    limits = {holding.too_old_from(final, recovery.clock(), held.since) for final in finals} - {None} if role is None else set()
    return any(any(_records_before(recovery, topic, limit).values()) for limit in limits if limit)


def _is_too_large(recovery: RecoveryContext, held: OutstandingHold, topic: TopicDescription, finals: Iterable[dict[str, str]]) -> bool:
    limited = [final for final in finals if deletes_above(final) is not None]
    sizes = _sizes(recovery, topic) if limited else {}
    if not any(sizes.values()):
        return False
    partitions = list(sizes)
    starts, ends = recovery.cluster.log_starts(partitions), recovery.cluster.high_watermarks(partitions)
    before = _records_before(recovery, topic, held.since)
    # As if all records of a partition had one size.
    restored = {tp: size * before[tp] // max(ends[tp] - starts[tp], 1) for tp, size in sizes.items()}
    return any(holding.too_large(final, restored[tp], size - restored[tp]) for final in limited for tp, size in sizes.items())


def _sizes(recovery: RecoveryContext, topic: TopicDescription) -> dict[TopicPartition, int]:
    """The bytes of each partition, empty when this user may not know them: then nothing is held by them."""
    try:
        return recovery.cluster.log_sizes({topic.name: topic.partitions})
    except Refused as error:
        LOGGER.warning("whether %s has more bytes than its retention.bytes keeps is not known: %s", topic.name, error.reason)
        return {}


def _there(recovery: RecoveryContext, held: Iterable[OutstandingHold]) -> dict[OutstandingHold, TopicDescription]:
    """The holds whose topic is still the held one by its id, with the topic."""
    held = tuple(held)
    # A name from the repository is not asked for before the cluster has shown it.
    found = (
        recovery.cluster.describe_topics({item.hold.topic for item in held}.intersection(recovery.cluster.topic_names())) if held else {}
    )
    return {item: found[name] for item in held if (name := item.hold.topic) in found and found[name].topic_id == item.hold.topic_id}


def _own(recovery: RecoveryContext, held: Iterable[OutstandingHold]) -> list[OutstandingHold]:
    """The holds whose topic is the application's own: internal, named in the configuration, or read by its group."""
    held = tuple(held)
    known = known_topics(recovery, {item.hold.topic for item in held})
    if strange := sorted({item.hold.topic for item in held} - known):
        LOGGER.warning(
            "recorded as held, and left as they are because they are no topics of %s: %r; to end a hold on one of them, declare it under `topics` until "
            "the next savepoint, or set it right by hand (docs/architecture.md, topic settings under hold)",
            recovery.application_id,
            strange[:_NAMED],
        )
    return [item for item in held if item.hold.topic in known]


def _elsewhere(recovery: RecoveryContext, gone: Iterable[OutstandingHold]) -> set[OutstandingHold]:
    """The holds of ``gone`` topics that may be on the cluster of another site: they are put back when the application is there again. Not for ever: their
    topics may have been deleted.
    """
    if len(recovery.sites.names) == 1:
        return set()
    now = recovery.clock()
    return {item for item in gone if 0 <= now - item.since < _ELSEWHERE_DAYS * DAY_MS}


def _for_later(recovery: RecoveryContext, strange: Iterable[OutstandingHold]) -> set[OutstandingHold]:
    """The holds on topics that are not the application's own now, but that may be released later: a topic may have left the configuration while a run that died
    guarded it. Only as long as a guard counts as needed, and by name and not by the topic's settings: a stranger may have written these.
    """
    now = recovery.clock()
    recent = {item for item in strange if 0 <= now - item.since < guarding.FORGOTTEN_DAYS * DAY_MS}
    there = set(recovery.cluster.topic_names()) if recent else set()
    return {item for item in recent if item.hold.topic in there}


def _by_run(held: Iterable[OutstandingHold]) -> dict[tuple[str, HoldPurpose, int], list[TopicHold]]:
    runs: dict[tuple[str, HoldPurpose, int], list[TopicHold]] = {}
    for item in held:
        runs.setdefault((item.run, item.purpose, item.mark), []).append(item.hold)
    return runs
