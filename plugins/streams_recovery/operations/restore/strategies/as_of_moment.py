"""The state of a savepoint, or none, and the archived input from there up to a moment; and the search for the savepoint and the archive that fit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final

from streams_recovery.core.archive.cuts import ArchivedCut
from streams_recovery.core.archive.log import Archive
from streams_recovery.core.archive.state import at_kept_cut
from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.forms import CONFIRM
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Profile, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.restore.parts.moment import MomentPart, PointInTime
from streams_recovery.core.restore.planned import ArchivedInput, ArchivedState
from streams_recovery.core.restore.point_in_time import (
    CLOCK_DIFFERENCE_MS,
    CUT_ROLES,
    SETTLED_MS,
    AsOf,
    LogCut,
    cut_log,
    inputs_of,
    read_up_to,
    relevant_gaps,
    rows_before,
    seen_of,
    why_no_base,
    why_not_continued,
    written_by,
)
from streams_recovery.core.restore.request import (
    ALLOW_AHEAD,
    AS_OF,
    BASE,
    BY,
    COMPARE_KEYS,
    DELETE,
    GROUPS,
    IN_PLACE,
    NO_STATE,
    NOTHING_REPLACED,
    REPLACE,
    SAFETY,
    SOURCE,
    Safeguards,
)
from streams_recovery.core.words import LATEST, moment, time_of
from streams_recovery.operations.archive import archived_behind, kept_cuts, read_archive
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import check_files, check_state, pieces_with
from streams_recovery.operations.restore.moments import MomentSource
from streams_recovery.operations.restore.placing import restored_state
from streams_recovery.operations.restore.strategies.strategy import ArchivedStrategy
from streams_recovery.operations.unfinished import replaced_at
from streams_recovery.segments.queries import rows_below, split_at
from streams_recovery.storage.savepoints import SavepointStore

_NAMED: Final = 5
_CUTS: Final = "the cuts behind savepoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedBase:
    """The savepoint that is asked for: of which application, its id or ``latest``, and whether one that is named may be ``ahead``."""

    source: str
    savepoint: str
    allow_ahead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfMoment(ArchivedStrategy):
    """The application as it was at a moment: the state of a savepoint and the archived input from there to the moment. ``savepoint`` is the id of the
    base, or ``latest``: the newest one that had read nothing later, or ``none``: all state is built from the archived input. ``source`` is the
    application id whose past it is, empty for the application's own.
    With ``in_place`` the application's own inputs are cut at the moment, which takes their later records away from everybody: ``groups`` names each
    other group that has read them, to say that it may be moved. What was archived behind the newest savepoint counts, and the state may be
    that of a cut behind a savepoint.
    """

    KIND: ClassVar = "as_of_moment"
    DAG: ClassVar = "streams_restore_pitr"
    COMMAND: ClassVar = "restore"
    as_of: Annotated[AsOf, AS_OF, BY]
    source: Annotated[str, SOURCE] = ""
    savepoint: Annotated[str, BASE] = LATEST
    allow_ahead: Annotated[bool, replace(ALLOW_AHEAD, title="Allow a named base that may count some input twice")] = False
    in_place: Annotated[bool, IN_PLACE] = False
    groups: Annotated[tuple[str, ...], GROUPS] = ()
    safeguards: Annotated[Safeguards, REPLACE, DELETE, SAFETY, CONFIRM] = NOTHING_REPLACED
    compare_keys: Annotated[bool, COMPARE_KEYS] = False

    def resolve(self, recovery: RecoveryContext) -> MomentSource:
        """The state and the input to restore. Raises ``Refused`` with the facts when no savepoint and no archive fit the moment, and ``Damaged`` for files that
        cannot be used.
        """
        if self.as_of.moment > recovery.clock():
            raise Refused(f"{moment(self.as_of.moment)} is not over yet", next_step="choose a moment of the past")
        _check_place(recovery, self)
        wanted = RequestedBase(source=self.source or recovery.application_id, savepoint=self.savepoint, allow_ahead=self.allow_ahead)
        # What is cut out of inputs in place stays in a savepoint, from which it can be appended again.
        search = BaseSavepointFinder(
            recovery=recovery,
            wanted=wanted,
            as_of=self.as_of,
            archive_entry=0 if self.in_place else self.archive_entry,
            # One that is named is meant as it is.
            state_entry=self.state_entry if self.state_entry is not None or self.savepoint == LATEST else 0,
        )
        base, archive = search.without_state() if self.savepoint == NO_STATE else search.with_state()
        cuts = search.cuts(archive)
        check_files(recovery, archive, pieces_with(archive.topics, (file for cut in cuts.values() for file in cut.files)))
        if not any(cut.rows.rows for tp, cut in cuts.items() if _topic_of(archive, tp.topic).role is TopicRole.INPUT):
            raise Refused(
                f"no archived input of {archive.application_id} is as old as {moment(self.as_of.moment)}",
                next_step="choose a later moment; there is no state before the first record",
                application_id=archive.application_id,
                moment=self.as_of.moment,
            )
        return MomentSource(
            manifest=restored_state(base, archive, cuts, recovery.config.application.auto_offset_reset),
            cuts={**cuts, **search.changelogs(base)},
            part=MomentPart(
                point=PointInTime(as_of=self.as_of, with_state=self.savepoint != NO_STATE, archive=archive.savepoint_id),
                archived=search.archived(archive),
                state=search.state(base),
            ),
            unreadable=tuple(search.unreadable),
            passed_archive=search.passed_archive,
            may_move=self.groups if self.in_place else None,
        )


def _check_place(recovery: RecoveryContext, request: AsOfMoment) -> None:
    """Raise ``Refused`` unless the place fits: in place, the input that came later would be processed too, so it has to come out, and that has to be
    asked for.
    """
    newest = recovery.savepoints.latest() if (request.source or recovery.application_id) == recovery.application_id else None
    here = newest is not None and newest.cluster_id == recovery.cluster.cluster_id()
    if request.in_place and not here:
        raise Refused(
            "only an application's own inputs, on the cluster that its savepoints were taken of, are cut in place",
            next_step=f"leave out {IN_PLACE.shown}: another application or another cluster gets copies",
        )
    if here and not request.in_place:
        raise Refused(
            f"{recovery.application_id} cannot be brought to a moment in place: its inputs go on behind it, and others read them",
            next_step="configure a second application (an id, outputs and copies of the inputs of its own, restore.topic_map), and restore "
            f"that one with {recovery.application_id} as its source; or restore into another cluster; or stop all producers and other readers of the "
            f"inputs and have these cut ({IN_PLACE.shown})",
            application_id=recovery.application_id,
        )


@dataclass(kw_only=True)
class BaseSavepointFinder:
    """Goes through the savepoints of the source, newest first, and before them what an archiver has copied behind the newest one, up to ``archive_entry`` (None
    for its last one, 0 for nothing of it). Before each savepoint also through the cuts that an archiver took behind it, in the archive up to ``state_entry``.
    One for each restore. ``unreadable`` are those it could not look into, and ``passed_archive`` is why the newest archive is not the one of the base, empty if
    it is.
    """

    recovery: RecoveryContext
    wanted: RequestedBase
    as_of: AsOf
    archive_entry: int | None = None
    state_entry: int | None = 0
    _archives: list[Manifest] = field(default_factory=list)
    _archive: Manifest | None = None
    _read: list[Manifest] = field(default_factory=list)
    _unread: Iterator[Manifest] | None = None
    _cuts: dict[int, dict[TopicPartition, LogCut]] = field(default_factory=dict)
    _passed: list[str] = field(default_factory=list)
    _unfit: list[dict[str, object]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    passed_archive: str = ""
    _behind: dict[int, ArchivedInput] = field(default_factory=dict)
    # The savepoints at cuts behind them.
    _at_cuts: dict[int, tuple[Manifest, ArchivedState]] = field(default_factory=dict)

    def with_state(self) -> tuple[Manifest, Manifest]:
        """The base and the archive that goes with it."""
        named = self.wanted.savepoint
        if named != LATEST:
            # Only for its error: below, one that is missing or damaged would be passed over.
            self.recovery.savepoints_of(self.wanted.source).read(named)
        for manifest in self._with_cuts():
            if named not in (LATEST, manifest.savepoint_id):
                continue
            archive, why, facts = self._archive_for(manifest)
            if archive is not None:
                self.passed_archive = why
                return manifest, archive
            state = self.state(manifest)
            self._pass_over(manifest.savepoint_id if state is None else _cut_of(state.at), why, facts)
        self._check_archive()
        raise Refused(
            f"no savepoint of {self.wanted.source} can be the base of {moment(self.as_of.moment)}: {'; '.join(self._passed[:_NAMED]) or 'there is none'}",
            next_step=f"choose a later moment, or build the state from the archived input alone (savepoint {NO_STATE})",
            passed=self._passed,
            unfit=self._unfit,
        )

    def _with_cuts(self) -> Iterator[Manifest]:
        """The savepoints, and before each one it at those cuts behind it that had read nothing later than the moment."""
        archive = self._archive_with_cuts()
        cuts = self._kept(archive)
        waiting = next(cuts, None)
        for manifest in self._newest_first():
            while waiting is not None and waiting.captured_at > manifest.captured_at:
                if (found := self._at(manifest, archive, waiting)) is not None:
                    yield found
                waiting = next(cuts, None)
            yield manifest

    def _archive_with_cuts(self) -> Archive:
        """The archive with the files of cuts, an empty one where it has none."""
        try:
            found = Archive() if self.state_entry == 0 else read_archive(self.recovery, self.wanted.source, upto=self.state_entry)
        except Damaged as error:
            self._pass_over(_CUTS, error.reason, error.facts)
            return Archive()
        return found if found.cut is not None else Archive()

    def _kept(self, archive: Archive) -> Iterator[ArchivedCut]:
        """The cuts that were kept, that of the archive first: what was taken later is not in the archive up to there. None from before a restore that had
        begun to replace the state by the moment: whatever that was made for, it gave up what was before it.
        """
        if archive.cut is None:
            return
        since = replaced_at(self.recovery, self.wanted.source, self.as_of.moment)
        try:
            for one in kept_cuts(self.recovery, self.wanted.source):
                if one.cut.captured_at <= since:
                    self._pass_over(_CUTS, f"a restore replaced the state at {moment(since)}", {"replaced_at": since})
                    return
                if one.cluster_id == archive.cluster_id and one.cut.captured_at <= archive.cut.captured_at:
                    yield one.cut
        except Damaged as error:
            self._pass_over(_CUTS, error.reason, error.facts)

    def _at(self, manifest: Manifest, archive: Archive, cut: ArchivedCut) -> Manifest | None:
        """The savepoint at a cut behind it, None where that had read something later, or cannot be used."""
        inputs, _ = self._newest_archive(manifest)
        if inputs is None or not cut.read_no_later({tp: log.rows.first_later for tp, log in self.cuts(inputs).items()}):
            return None
        found = at_kept_cut(manifest, archive, cut)
        if isinstance(found, str):
            self._pass_over(_cut_of(cut.captured_at), found, {"captured_at": cut.captured_at})
            return None
        self._at_cuts[id(found)] = found, ArchivedState(entry=archive.recorded, at=found.captured_at)
        return found

    def state(self, base: Manifest) -> ArchivedState | None:
        """The cut that the state of a base is of, None where it is of the savepoint."""
        return self._at_cuts[id(base)][1] if id(base) in self._at_cuts else None

    def changelogs(self, base: Manifest) -> dict[TopicPartition, LogCut]:
        """The rows of changelogs whose last file goes on behind the end of a base, which is a cut then."""
        return {
            TopicPartition(topic.name, image.partition): rows_before(
                files, image.end, base.captured_at, lambda file, end: rows_below(self.recovery.repository, file, end)
            )
            for topic in base.topics
            if topic.role is TopicRole.CHANGELOG
            for image in topic.partitions
            for files in [tuple(image.files())]
            if files and files[-1].last_offset >= image.end
        }

    def archives(self) -> Iterator[Manifest]:
        """The savepoints that have the records of all inputs up to the moment, the newest of each history of the inputs. Raises ``Refused`` when there is
        none, or none of the moment or later.
        """
        found: list[Manifest] = []
        at = 0
        for _ in self._newest_first():
            for manifest in self._archives[at:]:
                at += 1
                if manifest.captured_at >= self.as_of.moment and all(why_not_continued(manifest, known) for known in found):
                    found.append(manifest)
                    yield manifest
        if not found:
            self._check_archive()

    def without_state(self) -> tuple[Manifest, Manifest]:
        """The newest archive that is whole, and what it is without any state: nothing read, nothing known."""
        missing: list[str] = []
        for archive in self.archives():
            lacks = self._missing(archive)
            if not lacks:
                topics = tuple(_unread(topic) for topic in archive.topics if not topic.role.internal)
                return replace(archive, topics=topics, consistency=Consistency.EXACT), archive
            missing = missing or lacks
        raise Refused(
            f"state cannot be built from nothing: not all input is archived, {'; '.join(missing[:_NAMED])}",
            next_step="choose a moment that a savepoint with state goes before",
            missing=missing,
        )

    def _missing(self, archive: Manifest) -> list[str]:
        cuts = self.cuts(archive)
        return [
            f"{tp} begins at {image.archived_from}" + (", with gaps" if image.gaps else "")
            for topic in archive.topics
            if topic.role is TopicRole.INPUT
            for image in topic.partitions
            for tp in [TopicPartition(topic.name, image.partition)]
            if relevant_gaps(image, cuts[tp].rows) or image.archived_from > 0
        ]

    def cuts(self, archive: Manifest) -> dict[TopicPartition, LogCut]:
        """Every archived partition of inputs and globals as of the moment."""
        if id(archive) not in self._cuts:
            written = self.written(archive, self.as_of.moment)
            self._cuts[id(archive)] = {
                TopicPartition(topic.name, image.partition): cut_log(
                    image.files(),
                    self.as_of,
                    lambda file, at, below: split_at(self.recovery.repository, file, at, below),
                    written=written.get(TopicPartition(topic.name, image.partition), 0),
                )
                for topic in archive.topics
                if topic.role in CUT_ROLES and topic.archived
                for image in topic.partitions
            }
        return self._cuts[id(archive)]

    def _newest_first(self) -> Iterator[Manifest]:
        """Every savepoint that can be read, those that are an archive taken note of."""
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
            if _is_archive(found):
                self._archives += [*(() if self._archives else self._with_archive(found)), found]
            self._read.append(found)
        return self._read[at]

    def _with_archive(self, newest: Manifest) -> Iterator[Manifest]:
        """The newest savepoint with what an archiver has copied behind it, if all of its inputs go on there."""
        try:
            found = archived_behind(self.recovery, newest, upto=self.archive_entry)
        except Damaged as error:
            self.unreadable.append("the archive behind them")
            self._pass_over("the archive behind the newest savepoint", error.reason, error.facts)
            return
        if found is not None and found.safe_at > self.recovery.clock() + CLOCK_DIFFERENCE_MS:
            why = f"it says that it has all up to {moment(found.safe_at)}, which has not come yet"
            self._pass_over("the archive behind the newest savepoint", why, {"safe_at": found.safe_at})
        elif found is not None and not found.left:
            made = replace(found.manifest, captured_at=max(found.safe_at, newest.captured_at))
            self._behind[id(made)] = ArchivedInput(entry=found.number, safe_at=found.recorded_safe_at, records=found.records)
            yield made

    def archived(self, archive: Manifest) -> ArchivedInput | None:
        """The input that was copied behind the savepoint of an archive, None when it is the savepoint alone."""
        return self._behind.get(id(archive))

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

    def written(self, archive: Manifest, moment: int) -> dict[TopicPartition, int]:
        """The offset, by partition, below which all archived records had been written by a moment, as savepoints prove it: ``written_by``."""
        return {tp: written_by(moment, seen) for tp, seen in seen_of(archive, self._back_to(archive, moment)).items()}

    def _back_to(self, archive: Manifest, moment: int) -> Iterator[Manifest]:
        """Savepoints, newest first, until one of the archive's inputs is older than the moment."""
        for manifest in self._newest_first():
            yield manifest
            exact = manifest.consistency is Consistency.EXACT
            if exact and manifest.captured_at <= moment - CLOCK_DIFFERENCE_MS - SETTLED_MS and inputs_of(manifest) == inputs_of(archive):
                break

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

    def _archive_for(self, base: Manifest) -> tuple[Manifest | None, str, Mapping[str, object]]:
        """The archive that goes with a base, and why no newer one does; or why it is no base, as text and as facts."""
        if not self._label_fits(base):
            made = base.provenance.rescaled_from is not None
            return None, "a rescale has made it" if made else f"it is {base.consistency}", {"consistency": base.consistency.value}
        if base.profile is not Profile.FULL:
            return None, "it has no state", {"profile": base.profile.value}
        archive, since = self._newest_archive(base)
        if archive is None:
            return None, f"its inputs are not archived{f': {since}' if since else ''}", {"archived_to": None}
        if archive.captured_at < self.as_of.moment:
            ends = f"the archive of its inputs ends {moment(archive.captured_at)}{f': {since}' if since else ''}"
            return None, ends, {"archived_to": archive.captured_at}
        cuts, reset = self.cuts(archive), self.recovery.config.application.auto_offset_reset
        for topic in base.topics:
            if topic.role is TopicRole.INPUT:
                images = {image.partition: image for image in _topic_of(archive, topic.name).partitions}
                for image in topic.partitions:
                    tp = TopicPartition(topic.name, image.partition)
                    read, archived = read_up_to(image, reset), images[image.partition]
                    why = why_no_base(tp, read, base.captured_at, archived, cuts[tp].rows)
                    if why is not None:
                        first_later = cuts[tp].rows.first_later
                        facts = {"partition": str(tp), "read": read, "first_later": first_later, "archived_from": archived.archived_from}
                        return None, why, facts
        damaged = self._why_damaged(base)
        return (archive, since, {}) if damaged is None else (None, *damaged)

    def _newest_archive(self, base: Manifest) -> tuple[Manifest | None, str]:
        """The newest archive that goes on where the base ends, and why no newer one does."""
        newest = next(iter(self._archives), None)
        why = None if newest is None else why_not_continued(base, newest)
        # That of the savepoint before is most often that of this one, too.
        known = [self._archive, *self._archives] if self._archive is not None else self._archives
        self._archive = next((archive for archive in known if why_not_continued(base, archive) is None), None)
        return self._archive, why or ""

    def _label_fits(self, base: Manifest) -> bool:
        if base.consistency is Consistency.EXACT and not base.taken_by_name:
            return True
        allowed = [Consistency.EXACT, Consistency.EDITED, *([Consistency.AHEAD] if self.wanted.allow_ahead else [])]
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
        newest = max(found.captured_at for found in self._archives)
        if newest < self.as_of.moment:
            raise Refused(
                f"input of {self.wanted.source} is archived up to {moment(newest)}, and {moment(self.as_of.moment)} is later",
                next_step="take a savepoint first",
                application_id=self.wanted.source,
                archived_to=newest,
                moment=self.as_of.moment,
            )


def _cut_of(captured_at: int) -> str:
    return f"the cut of {moment(captured_at)}"


def _is_archive(manifest: Manifest) -> bool:
    # One that a rescale has made may have of an input only what was unread, from offset 0 on, and look whole.
    return manifest.provenance.rescaled_from is None and all(topic.archived for topic in manifest.topics if topic.role is TopicRole.INPUT)


def _topic_of(manifest: Manifest, name: str) -> TopicImage:
    """The image of a topic that is known to be in it."""
    return next(topic for topic in manifest.topics if topic.name == name)


def _unread(topic: TopicImage) -> TopicImage:
    if topic.role is not TopicRole.INPUT:
        return topic
    start = CommittedOffset(offset=0, metadata="", leader_epoch=None)
    return replace(topic, partitions=tuple(replace(image, committed=start) for image in topic.partitions))
