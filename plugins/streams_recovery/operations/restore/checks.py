"""Checks before a restore: of the savepoint and of what the request confirms, of the topics that would be made, and of state that is there already."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from streams_recovery.config.sandbox_application import SandboxApplication
from streams_recovery.core.errors import Damaged, NotExact, NotFound, PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import Consistency, Evidence, Profile, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.names import internal_role, one_for_kafka
from streams_recovery.core.repository.journal import created_by
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, SegmentFile, TopicImage
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import TopicToCreate, TopicToDelete
from streams_recovery.core.restore.rebuild import Placed
from streams_recovery.core.restore.request import ALLOW_AHEAD, ALLOW_DAMAGED, DELETE, REPLACE, Safeguards, SafetyPolicy
from streams_recovery.core.restore.topic_settings import TargetSettings, lost_settings
from streams_recovery.core.savepoint import warnings as savepoint_warnings
from streams_recovery.core.savepoint.cut import of_deletions
from streams_recovery.core.savepoint.topology import Attribution
from streams_recovery.core.state.table import window_begin
from streams_recovery.core.words import command
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import created_by_restores, readable_back
from streams_recovery.segments.queries import first_values, keyed_stamps
from streams_recovery.storage.savepoints import SavepointStore

_NAMED = 5


def require_state(recovery: RecoveryContext, manifest: Manifest) -> None:
    """Raise ``Refused`` for a savepoint without state."""
    if manifest.profile is Profile.MINIMAL:
        name = recovery.config.name
        others = command("savepoints", "list", name), command("rebuild", name, "--inputs-from", manifest.savepoint_id, "--plan")
        # A safety savepoint, or one of another application, is not listed there, and its inputs cannot be taken.
        commands = others if manifest.savepoint_id in recovery.savepoints.ids() else ()
        raise Refused(
            f"savepoint {manifest.savepoint_id} is minimal: it has offsets and settings, but no state to restore",
            next_step="choose one with profile full; when there is none, rebuild the state from input, which a rebuild with the inputs of this savepoint "
            "brings back where it is gone",
            savepoint=manifest.savepoint_id,
        ).then(*commands)


def require_label(manifest: Manifest, *, allow_ahead: bool, allow_damaged: bool) -> None:
    """Raise ``NotExact`` for a savepoint whose label was not allowed."""
    if manifest.consistency is Consistency.AHEAD and not allow_ahead:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `ahead`: {'; '.join(manifest.proof.reasons)}",
            next_step=f"choose an exact savepoint, or set {ALLOW_AHEAD.shown} and accept that some input is counted twice",
            savepoint=manifest.savepoint_id,
        )
    if manifest.consistency is Consistency.DAMAGED and not allow_damaged:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `damaged`: {'; '.join(manifest.proof.reasons)}",
            next_step=f"choose another savepoint, or set {ALLOW_DAMAGED.shown}: what was gone then will be gone again, and its stores begin empty",
            savepoint=manifest.savepoint_id,
        )


def check_state(recovery: RecoveryContext, store: SavepointStore, manifest: Manifest) -> None:
    """Raise ``Damaged`` when the manifest differs from the published one, or a file of its internal topics is missing or has another size."""
    check_published(recovery, store, manifest.savepoint_id)
    check_files(recovery, manifest, pieces_of(topic for topic in manifest.topics if topic.role.internal))


def check_published(recovery: RecoveryContext, store: SavepointStore, savepoint_id: str) -> None:
    """Raise ``Damaged`` when the manifest differs from the published one."""
    # Savepoints of releases that kept no record of their publication have nothing to be compared with.
    with contextlib.suppress(NotFound):
        if store.altered(savepoint_id):
            raise Damaged(
                f"the manifest of savepoint {savepoint_id} in {recovery.repository.location} is not the one that was published",
                next_step="nothing was changed; find out who wrote it, and choose another savepoint",
                savepoint=savepoint_id,
            )


def pieces_of(topics: Iterable[TopicImage]) -> Iterator[tuple[TopicPartition, CopiedRange]]:
    """Every range of these topics."""
    for topic in topics:
        for image in topic.partitions:
            tp = TopicPartition(topic.name, image.partition)
            yield from ((tp, piece) for piece in image.ranges)


def pieces_with(topics: Iterable[TopicImage], files: Iterable[SegmentFile]) -> Iterator[tuple[TopicPartition, CopiedRange]]:
    """The ranges of these topics that have one of ``files``."""
    keys = {file.key for file in files}
    return ((tp, piece) for tp, piece in pieces_of(topics) if piece.file is not None and piece.file.key in keys)


def check_files(recovery: RecoveryContext, manifest: Manifest, wanted: Iterable[tuple[TopicPartition, CopiedRange]]) -> None:
    """Raise ``Damaged`` naming the files of these ranges that are missing or have another size."""
    # Sizes only: what is in a file is checked before its first row is used.
    sizes = recovery.repository.sizes(Layout(manifest.application_id).segments)
    wrong = [(tp, piece, piece.file) for tp, piece in wanted if piece.file is not None and sizes.get(piece.file.key) != piece.file.bytes]
    damaged = [
        f"{file.key} {'is missing' if (size := sizes.get(file.key)) is None else f'has {size} bytes, not {file.bytes}'} "
        f"({tp}, offsets {piece.start} to {piece.end - 1})"
        for tp, piece, file in wrong
    ]
    if damaged:
        raise Damaged(
            f"savepoint {manifest.savepoint_id} is not whole, {len(damaged)} of its files cannot be used: {'; '.join(damaged[:_NAMED])}",
            next_step="choose another savepoint with --savepoint, or bring these files back from a copy of the repository; verifying says which savepoints "
            "are whole",
            savepoint=manifest.savepoint_id,
            files=damaged,
            sizes={file.key: sizes.get(file.key) for _, _, file in wrong},
        ).then(*((command("verify", recovery.config.name),) if manifest.application_id == recovery.application_id else ()))


def check_confirmed(recovery: RecoveryContext, safeguards: Safeguards) -> None:
    """Raise ``Refused`` unless a request that gives up a safeguard has the application id typed with it."""
    given_up = (["replaces running state"] if safeguards.replace else []) + (
        [f"has safety {safeguards.safety}"] if safeguards.safety is not SafetyPolicy.REQUIRED else []
    )
    if given_up and safeguards.confirm != recovery.application_id:
        raise Refused(
            f"a restore that {' and '.join(given_up)} needs the application id {recovery.application_id} typed to confirm it, not {safeguards.confirm!r}",
            next_step="nothing was changed; type it exactly, or leave these options as they are by default",
            application_id=recovery.application_id,
        )


# Values that are looked at to tell whose serialiser wrote a topic.
_SAMPLE = 20
# Rows at the beginning and at the end of so many partitions of a windowed store, to tell how it is written.
_WINDOWS, _PARTITIONS = 1_000, 3


def check_whole(topics: Sequence[TopicImage]) -> None:
    """Raise ``Refused`` when records of an internal topic are missing: there is no such thing as state with a hole in it."""
    found = [
        (f"{topic.name}-{image.partition}", gap)
        for topic in topics
        if topic.role.internal
        for image in topic.partitions
        for gap in image.gaps
    ]
    holes = [f"offsets {gap.start}..{gap.end - 1} of {tp} ({gap.reason})" for tp, gap in found]
    if holes:
        raise Refused(
            f"the savepoint has no whole state: {'; '.join(holes[:20])} are missing",
            next_step="choose another savepoint, or rebuild the state from the input",
            gaps=holes,
            holes=[(tp, gap.start, gap.end) for tp, gap in found],
        )


def warnings(recovery: RecoveryContext, manifest: Manifest, topics: Sequence[TopicImage]) -> tuple[str, ...]:
    """The warnings before these topics are made. Reads the beginning of one file a topic, and of windowed stores the ends of a few partitions."""
    assumed = of_deletions({topic.name: since for topic in topics if (since := manifest.provenance.deletions_kept_since.get(topic.name))})
    return (
        *savepoint_warnings.of_restore(manifest),
        *assumed,
        *savepoint_warnings.windows_ahead({topic.name: _windows(recovery, topic) for topic in topics}),
        *savepoint_warnings.registry(manifest, _framed(recovery, topics)),
    )


def _windows(recovery: RecoveryContext, topic: TopicImage) -> Iterator[tuple[int, int]]:
    """The beginnings of windows, and the timestamps of their records, in those partitions of which Kafka Streams may leave out records."""
    looked_at = 0
    for image in topic.partitions:
        oldest, files = image.ranges.facts.min_timestamp, list(image.files())
        if oldest is None or looked_at == _PARTITIONS or not savepoint_warnings.restored_by_time(topic, oldest, files[-1].max_timestamp):
            continue
        looked_at += 1
        for file, last in ((files[0], False), (files[-1], True)):
            for key, at in keyed_stamps(recovery.repository, file, _WINDOWS, last=last):
                begin = window_begin(topic.store, key)
                if begin is not None:
                    yield begin, at


def _framed(recovery: RecoveryContext, topics: Sequence[TopicImage]) -> list[str]:
    found = []
    for topic in topics:
        # One file tells, and the smallest is read soonest.
        files = (file for image in topic.partitions for file in image.files())
        smallest = min(files, key=lambda file: (file.bytes, file.key), default=None)
        if smallest is not None and savepoint_warnings.has_schema_ids(first_values(recovery.repository, smallest, _SAMPLE)):
            found.append(topic.name)
    return found


def spans(recovery: RecoveryContext, existing: dict[str, TopicDescription]) -> dict[str, int]:
    """Offsets between start and end of every topic that has any. Transaction markers count: a topic that seems to hold one record may hold none."""
    partitions = [TopicPartition(name, number) for name, found in existing.items() for number in range(found.partitions)]
    starts, ends = recovery.cluster.log_starts(partitions), recovery.cluster.high_watermarks(partitions)
    held: dict[str, int] = {}
    for tp in partitions:
        if ends[tp] > starts[tp]:
            held[tp.topic] = held.get(tp.topic, 0) + ends[tp] - starts[tp]
    return held


def refuse_existing_state(recovery: RecoveryContext, held: dict[str, int]) -> None:
    """Raise ``TargetNotEmpty`` naming topics and counts."""
    if held:
        listed = ", ".join(f"{name} ({count} offsets)" for name, count in sorted(held.items()))
        raise TargetNotEmpty(
            f"internal topics of {recovery.application_id} are not empty: {listed}",
            next_step=f"nothing was changed; if this state is really to be replaced, say so with {REPLACE.shown}: it is saved first",
            topics=held,
        )


def proven(
    recovery: RecoveryContext,
    going: Iterable[str],
    whose: Mapping[str, Attribution],
    safeguards: Safeguards,
    brought_back: Collection[str] = (),
) -> dict[str, Evidence]:
    """The evidence that each internal topic which is ``going`` to be deleted or replaced is the application's. Raises ``TargetNotEmpty`` naming topics with no
    evidence but their names that the request does not name. For topics that are ``brought_back`` from a savepoint the name is enough if no other id could begin
    it: they are not lost.
    """
    found: dict[str, Evidence | None] = {}
    for name in sorted(going):
        # A topic whose name does not begin with the id may have no evidence at all of its owner.
        attribution = whose.get(name)
        named = name in safeguards.delete and (attribution is None or not attribution.proven)
        found[name] = Evidence.NAMED if named else None if attribution is None else attribution.evidence
    enough = {name for name in brought_back if found.get(name) is Evidence.NAME}
    unproven = [name for name, evidence in found.items() if name not in enough and (evidence is None or not evidence.proves)]
    if unproven:
        raise TargetNotEmpty(
            f"nothing but their names says that these topics are {recovery.application_id}'s: {', '.join(unproven)}",
            next_step=f"nothing was changed; name those of this application that may go ({DELETE.shown}), or for always its stores under "
            "`stores` or its topics under topics.owned in the configuration; name those of another application under topics.foreign: they are left alone",
            topics=unproven,
        )
    return {name: evidence for name, evidence in found.items() if evidence is not None}


def without_copies(recovery: RecoveryContext, present: Mapping[str, TopicDescription]) -> dict[str, TopicDescription]:
    """The present topics without copies: those that earlier restores of this application created under names that the configuration maps to. Each restore makes
    its own copies. A journal makes no other topic a copy.
    """
    made, mapped = created_by_restores(recovery), _names_of_copies(recovery)
    return {name: found for name, found in present.items() if name not in mapped or found.topic_id not in made.get(name, set())}


def _names_of_copies(recovery: RecoveryContext) -> set[str]:
    """Names of copies that restores create. The name of a topic at another site is no such name: a failover has created the application's own topic there."""
    if isinstance(recovery.config, SandboxApplication):
        return {*recovery.config.own.values()}
    return {*recovery.sites.written.restore.topic_map.values()} if recovery.site == PRIMARY else set()


def refuse_existing_inputs(placed: Iterable[Placed]) -> None:
    """Raise ``Refused`` naming inputs that would stay as they are: a moment is brought back from copies that end there."""
    existing = [one.name for one in placed if one.image.role is TopicRole.INPUT and not one.made]
    if existing:
        raise Refused(
            f"inputs that go on behind the moment would be read: {', '.join(existing)}",
            next_step="nothing was changed; map each input to a name of its own (restore.topic_map), which the application reads instead",
            topics=existing,
        )


def refuse_joined_inputs(joined: Iterable[TopicPartition]) -> None:
    """Raise ``Refused`` naming inputs that are read, and that the base of a moment does not have: nothing ends them at the moment, and all of them would be
    processed.
    """
    if names := sorted({tp.topic for tp in joined}):
        raise Refused(
            f"inputs that the savepoint does not have would be read to their ends, behind the moment: {', '.join(names)}",
            next_step="nothing was changed; choose a moment behind a savepoint that has them; or take them out of topics.inputs and topics.input_patterns and "
            "delete the offsets that the group has on them (`groups delete-offsets`); delete copies that an earlier restore has left",
            topics=names,
        )


def refuse_foreign_topics(recovery: RecoveryContext, placed: Iterable[Placed]) -> None:
    """Raise ``Refused`` naming topics that a sandbox would create and that are not its own by their names. No person approves its plan, and its inputs are the
    application's: a drill must not fill an input that is gone or empty.
    """
    if not isinstance(recovery.config, SandboxApplication):
        return
    own = {*recovery.config.own.values()}
    foreign = [one.name for one in placed if one.made and one.name not in own and internal_role(one.name, recovery.application_id) is None]
    if foreign:
        raise Refused(
            f"{recovery.application_id} would create and fill topics of the application itself: {', '.join(foreign)}",
            next_step="nothing was changed; map them to names of their own (topic_map), or restore the application if its inputs are lost",
            topics=foreign,
        )


def unknown_topics(
    recovery: RecoveryContext, manifest: Manifest, known: Collection[str], whose: Mapping[str, Attribution], safeguards: Safeguards
) -> tuple[TopicToDelete, ...]:
    """Internal topics that the savepoint does not know, by the names it has here. The application would take up what is in them, state of another
    time than all the rest: so they go, or ``TargetNotEmpty`` is raised.

    A name alone does not prove the owner: a topic whose name begins with this application's id may belong to another application without a consumer group at
    the moment. So each has to be named, except those that the restore that is being undone has created itself.
    """
    unknown = recovery.cluster.describe_topics([name for name, found in whose.items() if found.claim is None and name not in known])
    ours = _created_by_undone(recovery, manifest)
    refused = sorted(
        name
        for name, found in unknown.items()
        if not safeguards.replace or (name not in safeguards.delete and found.topic_id not in ours.get(name, set()))
    )
    if refused:
        raise TargetNotEmpty(
            f"{recovery.application_id} has internal topics that savepoint {manifest.savepoint_id} does not know: {', '.join(refused)}",
            next_step="nothing was changed; choose a savepoint of this version of the application, or name each topic that may go "
            f"({REPLACE.shown} with {DELETE.shown}): they are saved first. If they belong to another application whose id begins like "
            "this one's, name them under topics.foreign in the configuration",
            topics=refused,
        )
    return tuple(TopicToDelete(name=name, topic_id=found.topic_id) for name, found in sorted(unknown.items()))


def _created_by_undone(recovery: RecoveryContext, manifest: Manifest) -> dict[str, set[str]]:
    if manifest.savepoint_id not in recovery.safety.ids():
        return {}
    # As far as it can be read: a topic whose entry is passed over has to be named.
    return created_by(tuple(readable_back(recovery, manifest.provenance.run_id)))


def check_same_targets(approved: RestorePlan, now: RestorePlan, *, empty: Collection[str] = ()) -> None:
    """Raise ``PlanChanged`` when a topic that would be deleted is not the one in the plan: it was created again since. ``empty`` names topics that may be
    others. The same when other topics would be created than was approved; but an empty topic that was to be created may be there now.
    """
    shown_made, made_now = {step.name for step in approved.create}, {step.name for step in now.create}
    made = sorted((shown_made - made_now - set(empty)) | (made_now - shown_made))
    if made:
        raise PlanChanged(
            f"other topics of {approved.application_id} would be created than was approved: {', '.join(made)}",
            next_step="find out what changed on the cluster or in the savepoint, then begin the restore again and approve the new plan",
            topics=made,
        )
    shown = {step.name: step.replaces for step in approved.create} | {gone.name: gone.topic_id for gone in approved.delete}
    found = {step.name: step.replaces for step in now.create if step.replaces} | {gone.name: gone.topic_id for gone in now.delete}
    other = sorted(name for name, topic_id in found.items() if shown.get(name) != topic_id and name not in empty)
    if other:
        raise PlanChanged(
            f"topics of {approved.application_id} were created since the plan was approved: {', '.join(other)}",
            next_step="find out who writes there, then trigger the restore again and approve the new plan",
            topics=other,
        )


def check_same_inputs(approved: RestorePlan, now: RestorePlan) -> None:
    """Raise ``PlanChanged`` when the application has begun to read an input after the plan was approved and before it was stopped: nothing would set the
    offsets that it has committed there, and what the lost state had of that input would be skipped.
    """
    shown = {one.tp for one in approved.offsets}
    late = sorted({tp.topic for tp in now.observed.offsets_before if tp not in shown})
    if late:
        raise PlanChanged(
            f"{approved.application_id} has begun to read other inputs since the plan was approved: {', '.join(late)}",
            next_step="begin the restore again and approve the new plan, which says where these go on",
            topics=late,
        )


def check_same_places(approved: RestorePlan, now: RestorePlan) -> None:
    """Raise ``PlanChanged`` when an input that another site has already is not read on where it was shown: a mirror may have carried it there again."""
    kept = () if approved.part.move is None else approved.part.move.kept
    shown = {one.tp: one.wanted.offset for one in approved.offsets if one.tp.topic in kept}
    found = {one.tp: one.wanted.offset for one in now.offsets}
    other = sorted(f"{tp}: {found.get(tp)} in place of {offset}" for tp, offset in shown.items() if found.get(tp) != offset)
    if other:
        raise PlanChanged(
            f"{approved.application_id} would go on elsewhere in its inputs than was approved: {', '.join(other[:_NAMED])}",
            next_step="find out what became of the mirror, then begin again and approve the new plan",
            places=other,
        )


def refuse_lost_settings(recovery: RecoveryContext, topics: Mapping[str, TopicImage], there: TargetSettings) -> None:
    """Raise ``Refused`` naming settings of topics, by the names that they get, that the cluster does not take: see ``lost_settings``."""
    lost = lost_settings(topics, there)
    if lost:
        raise Refused(
            f"the cluster at {recovery.site} does not take settings that decide which records are kept and taken: " + "; ".join(lost),
            next_step="nothing was changed; have the cluster's policy allow them, give its brokers these values, or change them where the application runs and "
            "take a savepoint",
            settings=list(lost),
        )


def refuse_unwanted(recovery: RecoveryContext, created: Sequence[TopicToCreate]) -> None:
    """Raise ``Refused`` naming topics that the cluster would not create: for Kafka the name is the same as another's or an existing one's; a policy forbids the
    topic; the cluster has too few brokers or takes no more partitions; or it does not take a setting that another cluster took.
    """
    if not created:
        return
    # The cluster compares with the topics that are there, and not with the others that it is asked for.
    alike = {
        " and ".join(names): "Kafka takes only one of them: they differ in dots and underscores alone"
        for names in one_for_kafka(step.name for step in created)
    }
    shapes = {step.name: (len(step.partitions), step.replication_factor, step.held_config) for step in created}
    refused = alike | recovery.cluster.refused_topics(shapes)
    if refused:
        raise Refused(
            f"the cluster at {recovery.site} would not create {len(refused)} of {len(created)} topics: "
            + "; ".join(f"{name}: {why}" for name, why in list(refused.items())[:_NAMED])
            + ("" if len(refused) <= _NAMED else f"; and {len(refused) - _NAMED} more"),
            next_step="nothing was changed; rename or remove a topic whose name is taken, have the cluster's policy allow the others, or change their settings "
            "where the application runs and take a savepoint",
            topics=refused,
        )
