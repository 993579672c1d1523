"""Decides about the topics and inputs of a restore: where an application begins in its inputs when its state is rebuilt from them, whether inputs that are
kept still have the records that the state was made of, and which topics of a savepoint are created from it. Pure: uses names, ids, present logs and offsets.

A rebuild has no restored state that the offsets could match. Metadata is never set, because stream time begins again with the state. Inputs that are left out
keep offset and metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.application_kind import ApplicationKind, Dialect
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition, TopicRole, truncation
from streams_recovery.core.offsets.strategies import STRATEGIES, Logs, OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.restore.planned import OffsetToSet
from streams_recovery.core.words import first_names

_NAMED = 10
_FROM_LOG = ", ".join(strategy.short_form() for strategy in STRATEGIES if strategy.FROM_LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildStart:
    """The start of each input. Every partition is in ``offsets`` or in ``kept``: those keep what is committed. ``agree`` is False where the state will lack
    input that lies before a kept offset.
    """

    offsets: tuple[OffsetToSet, ...]
    kept: tuple[TopicPartition, ...]
    agree: bool
    warnings: tuple[str, ...]


def rebuild_start(
    logs: Logs,
    strategy: OffsetStrategy,
    committed: Mapping[TopicPartition, int],
    *,
    written_by_application: Collection[str],
    accept_gap: bool,
    topics: Collection[str] = (),
    archived: Mapping[TopicPartition, int] | None = None,
) -> RebuildStart:
    """An offset for every partition of ``topics``, empty for all inputs; those of other inputs are kept. ``committed`` are the group's present offsets.
    Topics that are ``written_by_application`` begin at their end, whatever the strategy, because the application writes their contents again.
    ``archived`` are the partitions that are created from an archive, with the first offset from which it is complete. Offsets of the old log; the new
    log begins at 0.

    Raises ``Refused``, for all partitions at once: for topics that are no inputs; for a strategy that means nothing without state; for offsets outside the
    logs, also for kept ones; for a strategy that reads from the start if records at the beginning of a log are gone, unless ``accept_gap``; and, if
    inputs are created, for any other strategy and for those of them that are left out.
    """
    archived = archived or {}
    kept = _left_out(logs.starts, topics, archived)
    begun = logs.starts.keys() - kept
    again = {tp for tp in begun if tp.topic in written_by_application}
    strategy.check_rebuild(begun - again, begun, committed)
    _check_made(strategy, archived)
    offsets = tuple(
        _at_end(tp, logs) if tp in again else _placed(tp, committed.get(tp, logs.starts[tp]), strategy, logs) for tp in sorted(begun)
    )
    _check_reach({item.tp: item.wanted.offset for item in offsets}, logs, "choose offsets within the logs")
    held = {tp: committed[tp] for tp in kept if tp in committed}
    _check_reach(held, logs, "these inputs keep their offsets and have no such records any more: let them begin anew too")
    begins = {**logs.starts, **archived}
    gap = {tp: begins[tp] for tp in sorted(begun - again) if begins[tp] > 0}
    if strategy.FROM_START and gap and not accept_gap:
        raise Refused(
            f"the beginning of the input is gone: {_starts(gap)}; the state needs all of it, from offset 0",
            next_step="restore the state from a savepoint; rebuild from archived input in separate topics; or, if no store needs the missing "
            "records (expired windows), set accept_gap",
            gap={str(tp): start for tp, start in gap.items()},
        )
    lacking = {tp: offset for tp, offset in held.items() if offset > 0}
    moved = [item.tp for item in offsets if not item.fixed and item.tp not in again]
    return RebuildStart(
        offsets=offsets,
        kept=tuple(sorted(kept)),
        agree=not lacking,
        warnings=(
            *_of_kept(lacking, kept - held.keys()),
            *_partial(strategy, offsets, logs, again),
            *strategy.cut_off(moved),
            *_of_logs(gap, again),
        ),
    )


def check_all_go(application_id: str, internal: Collection[str], named: Collection[str]) -> None:
    """Raise ``Refused`` unless ``named`` are all ``internal`` topics of the application, and no other. Without any nothing is said, and all of them go."""
    if not named:
        return
    if strange := sorted(set(named) - set(internal)):
        raise Refused(
            f"these are no internal topics of {application_id}: {first_names(strange)}; it has: {first_names(internal) or 'none'}",
            next_step="nothing was changed; name its internal topics, or none for all of them",
            topics=strange,
        )
    if staying := sorted(set(internal) - set(named)):
        raise Refused(
            f"these internal topics of {application_id} would stay: {first_names(staying)}. They contain the results of input that is processed again, so it "
            "would be counted twice",
            next_step="nothing was changed; name these too, or none for all of them. Name those of another application under topics.foreign in the "
            "configuration. To change one store only, use `streams-recovery state write`",
            topics=staying,
        )


def _left_out(
    inputs: Collection[TopicPartition], topics: Collection[str], archived: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    known = {tp.topic for tp in inputs}
    if strange := sorted(set(topics) - known):
        raise Refused(
            f"these are no inputs: {first_names(strange)}; the inputs are: {first_names(known)}",
            next_step="nothing was changed; name inputs of the configuration (topics.inputs), or none for all of them",
            topics=strange,
        )
    kept = frozenset(tp for tp in inputs if topics and tp.topic not in topics)
    if made := sorted(kept.intersection(archived)):
        raise Refused(
            f"inputs that are created from a savepoint have no offset to keep: {first_names(made)}",
            next_step="nothing was changed; name these inputs too, or none for all of them",
            partitions=[str(tp) for tp in made],
        )
    return kept


def _check_made(strategy: OffsetStrategy, archived: Mapping[TopicPartition, int]) -> None:
    if archived and not strategy.FROM_START:
        raise Refused(
            f"inputs that are created from a savepoint begin at their start, not by {strategy.text!r}: {first_names(archived)}",
            next_step="choose earliest",
            strategy=strategy.text,
            archived=[str(tp) for tp in archived],
        )


def _placed(tp: TopicPartition, committed: int, strategy: OffsetStrategy, logs: Logs) -> OffsetToSet:
    offset, fixed = strategy.place(tp, committed, logs)
    return OffsetToSet(tp=tp, wanted=CommittedOffset(offset=offset, metadata=""), fixed=fixed)


def _at_end(tp: TopicPartition, logs: Logs) -> OffsetToSet:
    return OffsetToSet(tp=tp, wanted=CommittedOffset(offset=logs.stable[tp], metadata=""), fixed=False)


def _check_reach(offsets: Mapping[TopicPartition, int], logs: Logs, next_step: str) -> None:
    outside = [
        f"{tp}: offset {offset} is outside [{logs.starts[tp]}, {logs.ends[tp]}]"
        for tp, offset in sorted(offsets.items())
        if not logs.starts[tp] <= offset <= logs.ends[tp]
    ]
    if outside:
        raise Refused("; ".join(outside), next_step=next_step, problems=outside)


def _of_kept(lacking: Mapping[TopicPartition, int], without: Collection[TopicPartition]) -> Iterable[str]:
    if lacking:
        yield (
            f"inputs keep their offsets, and the new state lacks up to {sum(lacking.values()):,} records before these: {first_names(lacking)}; "
            "joins and counts of them will be wrong"
        )
    if without:
        yield f"nothing is committed on these, so they begin by auto.offset.reset: {first_names(without)}"


def _partial(strategy: OffsetStrategy, offsets: Collection[OffsetToSet], logs: Logs, again: Collection[TopicPartition]) -> list[str]:
    skipped = {
        item.tp: item.wanted.offset - logs.starts[item.tp]
        for item in offsets
        if item.tp not in again and item.wanted.offset > logs.starts[item.tp]
    }
    if not skipped:
        return []
    return [
        f"inputs begin by `{strategy.text}`: the state will not contain up to {sum(skipped.values()):,} earlier input records, in {first_names(skipped)}"
    ]


def _of_logs(gap: Mapping[TopicPartition, int], again: Collection[TopicPartition]) -> Iterable[str]:
    if gap:
        yield f"input that the state may need is gone: {_starts(gap)}"
    if again:
        yield f"read and written by the application itself, so these begin at the end: {first_names(again)}"


def _starts(gap: Mapping[TopicPartition, int]) -> str:
    shown = ", ".join(f"{tp} starts at {start}" for tp, start in list(gap.items())[:_NAMED])
    return shown if len(gap) <= _NAMED else f"{shown} and {len(gap) - _NAMED} more"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInput:
    """One partition, at the savepoint and now. ``leader_epoch`` and ``end`` are the present ones. ``epoch_end`` is the offset at which the broker
    says that the records up to the savepoint's leader epoch end; None if it cannot tell. ``compacted``: the log cleaner may remove records.
    ``past_end``: the log had been cut back before the savepoint already, to below what the application had read.
    """

    tp: TopicPartition
    image: PartitionImage
    leader_epoch: int | None
    epoch_end: int | None
    end: int
    compacted: bool
    past_end: bool = False

    @property
    def read(self) -> int:
        """The offset up to which the application had read. 0 without a commit."""
        return 0 if self.image.committed is None else self.image.committed.offset

    def truncated_below(self, offset: int) -> str | None:
        """The reason its records below ``offset``, which the state has, are different now. None if they are the same."""
        if self.past_end:
            return f"at the savepoint its log had lost records below the committed offset {self.read}"
        return truncation(seen=self.image.leader_epoch, upto=offset, now=self.leader_epoch, epoch_end=self.epoch_end)


def check_same_records(kept: Collection[KeptInput], strategy: OffsetStrategy) -> tuple[str, ...]:
    """Raise ``Refused`` for inputs that were truncated below the committed offset: the offset now points at other records. For strategies that take
    offsets from the log this is only a warning.
    """
    truncated = [(one, why) for one in kept if (why := one.truncated_below(one.read)) is not None]
    problems = [f"{one.tp}: {why}" for one, why in truncated]
    if problems and not strategy.FROM_LOG:
        raise Refused(
            f"inputs lost records that the savepoint's state was made of, and have other records at these offsets now: {'; '.join(problems)}",
            next_step="nothing was changed; find out why a broker lost acknowledged records; then choose a savepoint that is older than the loss, "
            f"restore into another cluster with the archived inputs, or choose offsets by the log ({_FROM_LOG})",
            problems=problems,
            epoch_ends={str(one.tp): one.epoch_end for one, _ in truncated},
            offsets={str(one.tp): one.read for one, _ in truncated},
        )
    return tuple(f"an input lost records that the state was made of, and has other records at these offsets now: {why}" for why in problems)


def outgrown_tables(kept: Collection[KeptInput], stores: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Warnings about compacted inputs that have changed since the savepoint. ``stores`` are, by input, the stores that are known to be restored from
    it.
    """
    spans: dict[str, list[str]] = {}
    for one in kept:
        if one.compacted and one.end > one.read > 0:
            spans.setdefault(one.tp.topic, []).append(f"{one.tp} offsets {one.read} to {one.end - 1}")
    return tuple(
        f"{topic} is compacted and has changed since the savepoint ({', '.join(at)}). If a key was written again, compaction may have removed its older "
        f"record. {_table(stores.get(topic, ()))} lacks such a key until its newer record is read, and joins with it find nothing until then. "
        "A min.compaction.lag.ms longer than the time from savepoint to restore keeps such records. A table with its own changelog does not need "
        "them"
        for topic, at in spans.items()
    )


def _table(stores: Collection[str]) -> str:
    if stores:
        return f"Store {', '.join(sorted(stores))}, which Kafka Streams restores from this topic,"
    return "A table that Kafka Streams restores from this topic (topology.optimization) in place of a changelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a restore. ``existing`` are its topics by name, ``filled`` those that contain records. ``topic_map`` renames inputs, outputs and
    globals. ``declared`` are the names in the configuration of the target application, by role. ``proven`` are inputs that are
    other topics than those of the savepoint and are known to have their records, ``contained`` those whose records the savepoint is known to have.
    """

    application_id: str
    dialect: Dialect = ApplicationKind.KAFKA_STREAMS.dialect
    cluster_id: str
    existing: Mapping[str, TopicDescription]
    filled: Collection[str]
    topic_map: Mapping[str, str]
    declared: Mapping[TopicRole, Collection[str]]
    proven: Collection[str] = ()
    contained: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One topic of the savepoint, and its name in the target. ``made``: it is created and loaded. Otherwise it exists and is kept."""

    image: TopicImage
    name: str
    made: bool


def target_name(topic: TopicImage, manifest: Manifest, application_id: str, topic_map: Mapping[str, str], dialect: Dialect) -> str:
    """The name in the target. Internal topics are called as in applications of this kind; other topics are renamed by the map."""
    if topic.role.internal:
        return dialect.name_in(topic.name, topic.role, manifest.application_id, application_id)
    return topic_map.get(topic.name, topic.name)


def place(manifest: Manifest, target: Target) -> tuple[Placed, ...]:
    """The decision for every topic. Raises ``Refused`` with all problems at once."""
    placed, problems, topics = [], _output_problems(manifest, target), []
    remedies = ["map topics of another application (restore.topic_map)"] if problems else []
    for topic in manifest.topics:
        name = target_name(topic, manifest, target.application_id, target.topic_map, target.dialect)
        made, problem = _decided(topic, name, manifest, target)
        placed.append(Placed(image=topic, name=name, made=made))
        if problem:
            problems.append(problem[0])
            remedies.append(problem[1])
            topics.append(name)
    names = [one.name for one in placed]
    doubled = [f"{name} would stand for two topics of the savepoint" for name in sorted({n for n in names if names.count(n) > 1})]
    problems += doubled
    remedies += ["give each topic a name of its own (restore.topic_map)"] if doubled else []
    if problems:
        raise Refused(
            f"savepoint {manifest.savepoint_id} of {manifest.application_id} cannot be restored as {target.application_id}: {'; '.join(problems)}",
            next_step=f"nothing was changed; {'; '.join(dict.fromkeys(remedies))}",
            problems=problems,
            topics=topics,
        )
    return tuple(placed)


_OTHER_PARTITIONS = (
    "choose a savepoint that was taken since an input got other partitions, or rebuild the state from the input; an archived input can also be restored "
    "under a name of its own, with the partitions that it had (restore.topic_map)"
)
_MADE_SINCE = (
    "choose a savepoint that was taken since an input was created again; or, if all that is needed of it is in this savepoint, delete the topic: it comes "
    "back from there"
)
_NOT_ARCHIVED = (
    "choose a savepoint that has the records of the inputs, or rebuild the state from the input that is there; from now on archive them "
    "(backup.survive_cluster_loss: true)"
)
_MADE_SINCE_UNSAVED = (
    "choose a savepoint that was taken since an input was created again, or rebuild the state from the input that is there"
)


def _decided(topic: TopicImage, name: str, manifest: Manifest, target: Target) -> tuple[bool, tuple[str, str] | None]:
    """True when the topic is made; and the obstacle with its next step, if there is one."""
    if topic.role.internal:
        return True, None
    found = target.existing.get(name)
    same = found is not None and target.cluster_id == manifest.cluster_id and found.topic_id == topic.topic_id
    what = f"{topic.role} {name}"
    if found is not None and (same or name in target.proven or topic.role in (TopicRole.OUTPUT, TopicRole.GLOBAL)):
        if topic.role is TopicRole.INPUT and found.partitions != len(topic.partitions):
            return False, (f"{what} has {found.partitions} partitions, {len(topic.partitions)} at the savepoint", _OTHER_PARTITIONS)
        return False, None
    if found is not None and name in target.contained:
        return True, None
    if found is not None and name in target.filled:
        return (
            False,
            (
                f"{what} holds records and is not the topic of the savepoint (id {topic.topic_id}, here {found.topic_id}): offsets mean nothing",
                _MADE_SINCE if topic.archived else _MADE_SINCE_UNSAVED,
            ),
        )
    if not topic.archived and topic.role is not TopicRole.OUTPUT:
        return False, (f"{what} is {'gone' if found is None else 'empty'}, and its records are not in the savepoint", _NOT_ARCHIVED)
    return True, None


def _output_problems(manifest: Manifest, target: Target) -> list[str]:
    """Names of outputs are in an application's code, not derived from its id. So a new application on the same cluster could write into the old one's
    outputs.
    """
    if manifest.application_id == target.application_id:
        return []
    problems = []
    for topic in manifest.topics:
        if topic.role not in target.declared:
            continue
        name = target_name(topic, manifest, target.application_id, target.topic_map, target.dialect)
        if topic.role is TopicRole.OUTPUT and name == topic.name and target.cluster_id == manifest.cluster_id:
            problems.append(f"output {topic.name} would be written by {manifest.application_id} and {target.application_id}")
        elif name not in target.declared[topic.role]:
            problems.append(f"{topic.role} {topic.name} would be {name}, which the configuration of {target.application_id} does not name")
    return problems
