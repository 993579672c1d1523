"""Which savepoint and which archive a restore to a moment begins from."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.ids import time_of
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Profile, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.restore.point_in_time import (
    CLOCK_DIFFERENCE_MS,
    SETTLED_MS,
    AsOf,
    LogCut,
    Seen,
    cut_log,
    read_up_to,
    relevant_gaps,
    why_no_base,
    written_by,
)
from streams_recovery.core.restore.request import LATEST, NO_STATE
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.savepoint_checks import check_state
from streams_recovery.operations.restore.source import CUT_ROLES
from streams_recovery.segments.queries import split_at
from streams_recovery.storage.savepoints import SavepointStore

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The savepoint that is asked for: of which application, its id or ``latest``, and whether one that is named may be ``ahead``."""

    source: str
    savepoint: str
    allow_ahead: bool = False


@dataclass(kw_only=True)
class BaseSavepointFinder:
    """Goes through the savepoints of the source, newest first. One for each restore. ``unreadable`` are those it could not look into."""

    recovery: RecoveryContext
    wanted: Base
    as_of: AsOf
    _archives: dict[object, Manifest] = field(default_factory=dict)
    _read: list[Manifest] = field(default_factory=list)
    _unread: Iterator[Manifest] | None = None
    _cuts: dict[str, dict[TopicPartition, LogCut]] = field(default_factory=dict)
    _passed: list[str] = field(default_factory=list)
    _unfit: list[dict[str, object]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def with_state(self) -> tuple[Manifest, Manifest]:
        """The base and the archive that goes with it."""
        named = self.wanted.savepoint
        if named != LATEST:
            self.recovery.savepoints_of(self.wanted.source).read(named)
        for manifest in self._newest_first():
            if named not in (LATEST, manifest.savepoint_id):
                continue
            why = self._why_not(manifest)
            if why is None:
                return manifest, self._archives[_inputs(manifest)]
            self._pass_over(manifest.savepoint_id, *why)
        self._check_archive()
        raise Refused(
            f"no savepoint of {self.wanted.source} can be the base of {moment(self.as_of.moment)}: {'; '.join(self._passed[:_NAMED]) or 'there is none'}",
            next_step=f"choose a later moment, or build the state from the archived input alone (savepoint {NO_STATE})",
            passed=self._passed,
            unfit=self._unfit,
        )

    def archive(self) -> Manifest:
        """The newest savepoint that has the records of all inputs. Raises ``Refused`` when there is none, or none of the moment or later."""
        next((found for found in self._newest_first() if self._archives), None)
        self._check_archive()
        return next(iter(self._archives.values()))

    def without_state(self) -> tuple[Manifest, Manifest]:
        """The archive, and what it is without any state: nothing read, nothing known."""
        archive = self.archive()
        cuts = self.cuts(archive)
        missing = [
            f"{tp} begins at {image.archived_from}" + (", with gaps" if image.gaps else "")
            for topic in archive.topics
            if topic.role is TopicRole.INPUT
            for image in topic.partitions
            for tp in [TopicPartition(topic.name, image.partition)]
            if relevant_gaps(image, cuts[tp].rows) or image.archived_from > 0
        ]
        if missing:
            raise Refused(
                f"state cannot be built from nothing: not all input is archived, {'; '.join(missing[:_NAMED])}",
                next_step="choose a moment that a savepoint with state goes before",
                missing=missing,
            )
        topics = tuple(_unread(topic) for topic in archive.topics if not topic.role.internal)
        return replace(archive, topics=topics, consistency=Consistency.EXACT), archive

    def cuts(self, archive: Manifest) -> dict[TopicPartition, LogCut]:
        """Every archived partition of inputs and globals as of the moment."""
        if archive.savepoint_id not in self._cuts:
            seen = self._seen(archive)
            self._cuts[archive.savepoint_id] = {
                TopicPartition(topic.name, image.partition): cut_log(
                    image.files(),
                    self.as_of,
                    lambda file, at, written: split_at(self.recovery.repository, file, at, written),
                    written=written_by(self.as_of.moment, seen.get((topic.name, topic.topic_id, image.partition), ())),
                )
                for topic in archive.topics
                if topic.role in CUT_ROLES and topic.archived
                for image in topic.partitions
            }
        return self._cuts[archive.savepoint_id]

    def _newest_first(self) -> Iterator[Manifest]:
        """Every savepoint that can be read, its archive taken note of: the newest one of the same topics reaches furthest."""
        at = 0
        while (found := self._number(at)) is not None:
            yield found
            at += 1

    def _number(self, at: int) -> Manifest | None:
        if self._unread is None:
            self._unread = self._all()
        while len(self._read) <= at:
            found = next(self._unread, None)
            if found is None:
                return None
            if all(topic.archived for topic in found.topics if topic.role is TopicRole.INPUT):
                self._archives.setdefault(_inputs(found), found)
            self._read.append(found)
        return self._read[at]

    def _all(self) -> Iterator[Manifest]:
        store, now = self.recovery.savepoints_of(self.wanted.source), self.recovery.clock()
        for _, ids in itertools.groupby(reversed(store.ids()), key=time_of):
            # Of one moment's savepoints the compacted one first: it holds the same state in fewer records.
            for manifest in sorted(self._readable(store, ids), key=lambda found: found.replaces is None):
                if manifest.captured_at > now + CLOCK_DIFFERENCE_MS:
                    # It could say of any record that it came before any moment, and of any archive that it reaches there.
                    why = f"it says that it was taken at {moment(manifest.captured_at)}, which has not come yet"
                    self._pass_over(manifest.savepoint_id, why, {"captured_at": manifest.captured_at})
                    continue
                yield manifest

    def _seen(self, archive: Manifest) -> dict[tuple[str, str, int], list[Seen]]:
        """By partition, what savepoints of the archive's inputs know of when its records were written. Reads back until one is older than the moment."""
        settled = self.as_of.moment - CLOCK_DIFFERENCE_MS - SETTLED_MS
        found: dict[tuple[str, str, int], list[Seen]] = {}
        for manifest in self._newest_first():
            exact = manifest.consistency is Consistency.EXACT
            for topic in manifest.topics:
                for image in topic.partitions if topic.role in CUT_ROLES else ():
                    committed = image.committed.offset if exact and image.committed is not None else None
                    seen = Seen(captured_at=manifest.captured_at, committed=committed, end=image.end)
                    found.setdefault((topic.name, topic.topic_id, image.partition), []).append(seen)
            if manifest.captured_at <= settled and exact and _inputs(manifest) == _inputs(archive):
                break
        return found

    def _readable(self, store: SavepointStore, ids: Iterable[str]) -> Iterator[Manifest]:
        for savepoint_id in ids:
            try:
                yield store.read(savepoint_id)
            except Damaged as error:
                self._pass_over(savepoint_id, error.reason, error.facts)
                self.unreadable.append(savepoint_id)

    def _pass_over(self, savepoint_id: str, why: str, facts: Mapping[str, object]) -> None:
        self._passed.append(f"{savepoint_id}: {why}")
        self._unfit.append({**facts, "savepoint": savepoint_id})

    def _why_not(self, base: Manifest) -> tuple[str, Mapping[str, object]] | None:
        """Why it is no base, as text and as facts."""
        archive = self._archives.get(_inputs(base))
        if not self._label_fits(base):
            return f"it is {base.consistency}", {"consistency": base.consistency.value}
        if base.profile is not Profile.FULL:
            return "it has no state", {"profile": base.profile.value}
        if archive is None:
            return "its inputs are not archived", {"archived_to": None}
        if archive.captured_at < self.as_of.moment:
            return f"the archive of its inputs ends {moment(archive.captured_at)}", {"archived_to": archive.captured_at}
        cuts, reset = self.cuts(archive), self.recovery.config.application.auto_offset_reset
        for topic in base.topics:
            if topic.role is TopicRole.INPUT:
                images = {image.partition: image for image in topic_of(archive, topic.name).partitions}
                for image in topic.partitions:
                    tp = TopicPartition(topic.name, image.partition)
                    read, archived = read_up_to(image, reset), images[image.partition]
                    why = why_no_base(tp, read, base.captured_at, archived, cuts[tp].rows)
                    if why is not None:
                        first_later = cuts[tp].rows.first_later
                        return why, {
                            "partition": str(tp),
                            "read": read,
                            "first_later": first_later,
                            "archived_from": archived.archived_from,
                        }
        return self._why_damaged(base)

    def _label_fits(self, base: Manifest) -> bool:
        if base.consistency is Consistency.EXACT:
            return True
        allowed = [Consistency.EDITED, *([Consistency.AHEAD] if self.wanted.allow_ahead else [])]
        return self.wanted.savepoint == base.savepoint_id and base.consistency in allowed

    def _why_damaged(self, base: Manifest) -> tuple[str, Mapping[str, object]] | None:
        try:
            check_state(self.recovery, self.recovery.savepoints_of(self.wanted.source), base)
        except Damaged as error:
            return error.reason, error.facts
        return None

    def _check_archive(self) -> None:
        if not self._archives:
            raise Refused(
                f"no savepoint of {self.wanted.source} in {self.recovery.repository.location} has the records of all its inputs",
                next_step="archive the inputs (backup.survive_cluster_loss: true in the configuration of the source), and take a savepoint",
                application_id=self.wanted.source,
                archived_to=None,
            )
        newest = max(found.captured_at for found in self._archives.values())
        if newest < self.as_of.moment:
            raise Refused(
                f"input of {self.wanted.source} is archived up to {moment(newest)}, and {moment(self.as_of.moment)} is later",
                next_step="take a savepoint first",
                application_id=self.wanted.source,
                archived_to=newest,
                moment=self.as_of.moment,
            )


def _inputs(manifest: Manifest) -> object:
    return frozenset((topic.name, topic.topic_id, len(topic.partitions)) for topic in manifest.topics if topic.role is TopicRole.INPUT)


def topic_of(manifest: Manifest, name: str) -> TopicImage:
    """The image of a topic that is known to be in it."""
    return next(topic for topic in manifest.topics if topic.name == name)


def _unread(topic: TopicImage) -> TopicImage:
    if topic.role is not TopicRole.INPUT:
        return topic
    start = CommittedOffset(offset=0, metadata="", leader_epoch=None)
    return replace(topic, partitions=tuple(replace(image, committed=start) for image in topic.partitions))
