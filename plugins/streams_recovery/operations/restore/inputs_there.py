"""Inputs that are on the cluster before a restore.

At the site to which an application moves they are kept where the place of each committed offset is proven, and made again where the savepoint has all that they
hold. In place those that stay are looked at before the restore relies on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.errors import PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.mirrored_input import InputPlace, check_exact
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.sites import SeenSite
from streams_recovery.core.restore.failover import Contained, contained, with_places
from streams_recovery.core.restore.rebuild import KeptInput, Placed, check_same_records, outgrown_tables
from streams_recovery.core.restore.request import REPLACE
from streams_recovery.core.topic_settings import compacts
from streams_recovery.core.words import first_names
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import other_groups
from streams_recovery.operations.offsets.mirrored_inputs import (
    ArchivedInputs,
    Assumed,
    ReachedCluster,
    archived_digests,
    find_places,
    records_there,
)
from streams_recovery.operations.restore.checks import spans

_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsThere:
    """``manifest`` has the committed offsets as they are at the site. ``kept`` and ``replaced`` are those of ``SiteMove``. ``proofs`` say so in words."""

    manifest: Manifest
    kept: tuple[str, ...]
    replaced: dict[TopicPartition, int]
    proofs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The permissions in a request: that records are counted twice (``ahead``), and that inputs which the savepoint has are made again (``replace``)."""

    ahead: bool
    replace: bool


def inputs_there(
    recovery: RecoveryContext,
    manifest: Manifest,
    names: Mapping[str, str],
    present: dict[str, TopicDescription],
    seen: SeenSite,
    allowed: Allowed,
) -> InputsThere:
    """Decide what becomes of the inputs that hold records at this site, by their ``names`` here. ``seen`` is the site that the application leaves; where its
    cluster answers, the old topics themselves are asked. Raises ``Refused`` where no place is proven and the savepoint does not have all that is there.
    """
    found: dict[TopicPartition, CommittedOffset] = {}
    kept: list[str] = []
    replaced: dict[TopicPartition, int] = {}
    proofs: list[str] = []
    ahead = False
    with _old_cluster(recovery, seen) as old:
        for topic in _filled(recovery, manifest, names, present):
            name, places = names[topic.name], _places(recovery, manifest, topic, names, old)
            exact = all(one.exact for one in places)
            if not exact and topic.archived and (held := _replaced(recovery, manifest, topic, name, places, allowed)) is not None:
                replaced |= {tp: one.end for tp, one in held.items()}
                count = sum(one.records for one in held.values())
                what = f"the savepoint has all {count} records of it, in the same order" if count else "it holds no record any more"
                proofs += [f"{name} is deleted and made again from the savepoint: {what}", *_readers(recovery, name)]
                continue
            if not exact:
                check_exact(places, allow_ahead=allowed.ahead)
                ahead = True
            kept.append(name)
            found |= _committed(topic, places)
            proofs += [one.words for one in places]
    if ahead:
        manifest = replace(manifest, consistency=Consistency.AHEAD)
    return InputsThere(manifest=with_places(manifest, found), kept=tuple(sorted(kept)), replaced=replaced, proofs=tuple(proofs))


def _filled(
    recovery: RecoveryContext, manifest: Manifest, names: Mapping[str, str], present: dict[str, TopicDescription]
) -> list[TopicImage]:
    """Inputs that are here, hold records and are not the very topics of the savepoint."""
    home = recovery.cluster.cluster_id() == manifest.cluster_id
    others = [
        topic
        for topic in manifest.topics
        if topic.role is TopicRole.INPUT
        and (there := present.get(names[topic.name])) is not None
        and not (home and there.topic_id == topic.topic_id)
    ]
    filled = spans(recovery, {names[topic.name]: present[names[topic.name]] for topic in others})
    return [topic for topic in others if names[topic.name] in filled]


def _committed(topic: TopicImage, places: Collection[InputPlace]) -> dict[TopicPartition, CommittedOffset]:
    """The offsets to commit at the site. Metadata is about the records in front of the offset, so it goes with a place that is proven alone."""
    metadata = {image.partition: image.committed.metadata for image in topic.partitions if image.committed is not None}
    return {
        one.source: CommittedOffset(
            offset=one.offset, metadata=metadata.get(one.source.partition, "") if one.exact else "", leader_epoch=None
        )
        for one in places
        if one.offset is not None
    }


@contextmanager
def _old_cluster(recovery: RecoveryContext, seen: SeenSite) -> Iterator[ReachedCluster | None]:
    if not seen.cluster_id:
        yield None
        return
    with recovery.at(seen.site) as old:
        yield ReachedCluster(connection=old.connection, cluster=old.cluster)


def _places(
    recovery: RecoveryContext, manifest: Manifest, topic: TopicImage, names: Mapping[str, str], old: ReachedCluster | None
) -> tuple[InputPlace, ...]:
    latest = recovery.config.application.auto_offset_reset == "latest"
    wanted = {
        TopicPartition(topic.name, image.partition): image.committed
        # One that was never read goes on where it would have begun.
        or CommittedOffset(offset=image.end if latest else image.log_start, metadata="", leader_epoch=None)
        for image in topic.partitions
    }
    site = recovery.sites.written.sites.get(recovery.site)
    assumed = (
        Assumed() if site is None else Assumed(same_offsets=frozenset(site.same_offsets), committed_only=frozenset(site.committed_only))
    )
    return find_places(
        ArchivedInputs(repository=recovery.repository, manifest=manifest),
        wanted,
        names,
        ReachedCluster(connection=recovery.connection, cluster=recovery.cluster),
        old=old,
        assumed=assumed,
    )


def _replaced(
    recovery: RecoveryContext, manifest: Manifest, topic: TopicImage, name: str, places: Collection[InputPlace], allowed: Allowed
) -> dict[TopicPartition, Contained] | None:
    """The partitions of an input whose records are all in the savepoint; None if none of its records are. Raises ``Refused`` if only some of them are, and
    ``TargetNotEmpty`` if nothing may be replaced.
    """
    target = ReachedCluster(connection=recovery.connection, cluster=recovery.cluster)
    archive = ArchivedInputs(repository=recovery.repository, manifest=manifest)
    results: dict[TopicPartition, Contained] = {}
    for image in topic.partitions:
        tp = TopicPartition(name, image.partition)
        there, end = records_there(target, tp)
        results[tp] = contained(there, archived_digests(archive, TopicPartition(topic.name, image.partition)), end=end)
    lost = {tp: one for tp, one in results.items() if one.missing}
    if lost and all(one.missing == one.records for one in results.values() if one.records):
        return None
    if lost:
        listed = "; ".join(f"{tp}: {one.missing} records from offset {one.missing_from} on" for tp, one in list(lost.items())[:_NAMED])
        raise Refused(
            f"the input {name} cannot be made again from the savepoint, which does not have all that it holds ({listed}); and nobody can read on in it: "
            + "; ".join(one.words for one in places if not one.exact),
            next_step="nothing was changed; let these records be processed where the application runs now (produce them there), take a savepoint, and "
            "try again; or copy the topic to another name and delete it",
            topic=name,
            missing={str(tp): one.missing for tp, one in lost.items()},
        )
    if not allowed.replace:
        counts = ", ".join(f"{tp} ({one.records} records)" for tp, one in results.items())
        raise TargetNotEmpty(
            f"the input {name} is here already: {counts}. The savepoint has all of it, and more",
            next_step=f"nothing was changed; to have it deleted and made again from the savepoint, say so with {REPLACE.shown}",
            topics={name: sum(one.records for one in results.values())},
        )
    return results


def _readers(recovery: RecoveryContext, name: str) -> tuple[str, ...]:
    """The warning about other groups that read an input which is deleted: their offsets go with it."""
    kinds, reading = recovery.cluster.groups(), recovery.groups.subscribed(but=recovery.application_id)
    others = {group for group, topics in reading.items() if name in (topics or ())} | {
        group
        for group in other_groups(recovery)
        if kinds.get(group) not in (None, "share") and any(tp.topic == name for tp in recovery.groups.last_committed(group))
    }
    if not others:
        return ()
    text = f"other groups read {name}, and nobody moves them: {first_names(sorted(others))}. Kafka deletes their offsets with the topic, and an offset that "
    return (f"{text}one keeps is another record then: stop them, and set their offsets afterwards",)


def require_nothing_new(recovery: RecoveryContext, replaced: Mapping[TopicPartition, int]) -> None:
    """Raise ``PlanChanged`` when records came to an input that is about to be deleted, since it was proven that the savepoint has all of it."""
    if not replaced:
        return
    existing = recovery.cluster.describe_topics({tp.topic for tp in replaced})
    ends = recovery.cluster.high_watermarks([tp for tp in replaced if tp.topic in existing])
    changed = sorted(str(tp) for tp, end in ends.items() if end != replaced[tp])
    if changed:
        raise PlanChanged(
            f"records came to {', '.join(changed[:_NAMED])} since the plan was made, and the savepoint does not have them",
            next_step="nothing was deleted; stop the producers that write there, then begin again",
            topics=changed,
        )


def check_kept(
    recovery: RecoveryContext,
    placed: Sequence[Placed],
    present: Mapping[str, TopicDescription],
    strategy: OffsetStrategy,
    past_end: Collection[TopicPartition],
) -> tuple[str, ...]:
    """The warnings about inputs that stay as they are. Raises ``Refused`` naming those that lost records which the savepoint's state was made of, before it
    (``past_end``: see ``CutProof``) or since.
    """
    images = {
        TopicPartition(one.name, image.partition): image
        for one in placed
        if one.image.role is TopicRole.INPUT and not one.made
        for image in one.image.partitions
    }
    # By their names at the savepoint.
    lost = {
        TopicPartition(one.name, image.partition)
        for one in placed
        for image in one.image.partitions
        if TopicPartition(one.image.name, image.partition) in past_end
    }
    kept = [replace(one, past_end=one.tp in lost) for one in kept_inputs(recovery, images, present)]
    sources: dict[str, list[str]] = {}
    for store, topic in recovery.config.sources.items():
        sources.setdefault(topic, []).append(store)
    return (*check_same_records(kept, strategy), *outgrown_tables(kept, sources))


def joined_inputs(recovery: RecoveryContext, manifest: Manifest, placed: Collection[str]) -> dict[TopicPartition, int]:
    """Inputs that the savepoint does not have, with the offset at which its state goes on there: it has nothing of their records. They are read since then:
    by a pattern, by a changed configuration, or without one, as committed offsets show. These offsets would skip what the lost state had of them.
    """
    existing = recovery.cluster.topic_names()
    read = {
        *recovery.config.topics.on(existing).inputs,
        *(tp.topic for tp in recovery.groups.committed_partitions(recovery.application_id)),
    }
    names = [name for name in read.intersection(existing).difference(placed) if recovery.config.internal_role(name) is None]
    there = recovery.cluster.describe_topics(names) if names else {}
    partitions = [TopicPartition(name, number) for name, found in sorted(there.items()) for number in range(found.partitions)]
    if not partitions:
        return {}
    if recovery.config.application.auto_offset_reset != "latest":
        return recovery.cluster.log_starts(partitions)
    # It began at the ends that they had when it joined: no earlier than at the savepoint.
    since, ends = recovery.cluster.offsets_for_times(partitions, manifest.captured_at), recovery.cluster.high_watermarks(partitions)
    return {tp: ends[tp] if (offset := since[tp]) is None else offset for tp in partitions}


def kept_inputs(
    recovery: RecoveryContext, images: Mapping[TopicPartition, PartitionImage], present: Mapping[str, TopicDescription]
) -> tuple[KeptInput, ...]:
    """Partitions of inputs as they are beside what a savepoint says of them."""
    epochs = {tp: image.leader_epoch for tp, image in images.items() if image.leader_epoch is not None}
    settings, ends = recovery.cluster.settings({tp.topic for tp in images}), recovery.cluster.high_watermarks(list(images))
    epoch_ends = recovery.cluster.epoch_ends(epochs)
    return tuple(
        KeptInput(
            tp=tp,
            image=image,
            leader_epoch=present[tp.topic].leader_epochs[tp.partition],
            epoch_end=epoch_ends.get(tp),
            end=ends[tp],
            compacted=compacts(settings[tp.topic]),
        )
        for tp, image in images.items()
    )
