"""Transfers outputs from an application to its clone, or back: what blocks that, and which results come twice. Pure.

The clone wrote the results of its input to its own outputs. So before it writes the real outputs, the old application must have read at least as much
input; then no result is missing there. Input that the old application had read beyond that is read again by the clone, and its results come twice.
After a roll-back the old application continues where it stopped, and results of the input that the clone has read since come twice.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.approval import hash_of
from streams_recovery.core.escaping import Markdown, code, joined, md, warned
from streams_recovery.core.forms import FieldKind, FormField
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.words import first_names

Counts = Mapping[TopicPartition, int]
_NAMED = 10
# Partitions in the table of a plan.
_SHOWN = 40
_EMPTY = md("")
_UPGRADED = md(
    "No result comes twice and none is lost. No input is processed between steps 1 and 3. If a step before 3 fails, the old application is started again. "
    "After step 3, use `roll_back` to return to it."
)


class CutoverStep(enum.StrEnum):
    """``cut_over``: the clone writes the real outputs from now on. ``roll_back``: the old application writes them again, and the clone is stopped."""

    CUT_OVER = "cut_over"
    ROLL_BACK = "roll_back"


STEP: Final = FormField(
    name="step",
    title="Step",
    kind=FieldKind.CHOICE,
    default="clone",
    choices={
        "clone": "Clone: start the clone beside the old application",
        CutoverStep.CUT_OVER.value: "Cut over: the clone writes the real outputs from now on",
        CutoverStep.ROLL_BACK.value: "Roll back: the old application writes them again",
        "offline_upgrade": "Offline upgrade: stop the old application, start the clone where it stopped",
    },
)
RESTORE_FIRST: Final = FormField(
    name="restore_first",
    title="Leave the old application down",
    kind=FieldKind.SWITCH,
    help="For roll_back, when its offsets or its input are gone, so that it has to be restored from a savepoint.",
    option_help="Leave the old application down: its offsets or its input are gone, so it has to be restored.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two applications. ``other`` is the application that it transferred outputs to or from, None if none were transferred. ``alive`` and
    ``unknown`` name instances. ``clean`` means that every stopped instance was seen to close cleanly. ``committed`` is on inputs, ``unread`` of
    repartition topics. ``retired_offsets`` are its offsets at the time it was retired, None unless it is retired.
    ``unfinished`` is a restore of it that failed half way. ``stranger`` is the application that the newest entry of its log names, where none of that id is
    configured: such an entry is not proven, and ``role``, ``other`` and ``retired_offsets`` are those before it. ``stranger_in_use`` is what is seen of that
    application at work.
    """

    application_id: str
    role: Role
    other: str | None
    alive: tuple[str, ...]
    unknown: tuple[str, ...]
    clean: bool
    transactional: bool
    inputs: tuple[str, ...]
    globals: tuple[str, ...]
    outputs: tuple[str, ...]
    committed: Counts
    unread: Counts
    retired_offsets: Counts | None
    unfinished: str | None
    stranger: str | None = None
    stranger_in_use: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """True if its state matches its committed offsets. Transactions prove that; without them only a clean close does."""
        return self.transactional or self.clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The restore that made the clone. ``altered`` are topics of the clone that were restored alone since then, in place."""

    restore_id: str
    source: str
    savepoint_id: str | None
    consistency: Consistency | None
    offsets: str
    proven: bool
    altered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both applications and their inputs at present. ``outputs`` maps the clone's own outputs to the real ones. ``lag`` counts input that the clone
    has not read. ``old_ahead`` counts the part of that which the old application has read. ``clone_ahead`` counts input that the clone has read and
    the old application has not. ``old_has_read``: an earlier attempt has seen that the old application processed everything that the clone's input
    had caused, including repartition topics, and the clone has read nothing since. ``same_cluster``: both run on one cluster.
    """

    old: Side
    clone: Side
    outputs: dict[str, str]
    starts: Counts
    lag: Counts
    old_ahead: Counts
    clone_ahead: Counts
    origin: Origin | None
    old_has_read: bool
    same_cluster: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPlan:
    """What becomes of an application and its clone. ``outputs`` maps the clone's own outputs to the real ones."""

    old: str
    clone: str
    outputs: dict[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverPlan(PairPlan):
    """The plan of a cut-over. The counts change while a person reads the plan: ``again`` is input whose output comes twice, ``tail`` are unread
    records in repartition topics of the application that will be started, and ``lag`` is how far the clone is behind its input. ``comparison`` is what is
    known of the outputs of both, empty for a roll-back.
    """

    step: CutoverStep
    running: dict[str, tuple[str, ...]]
    offsets: dict[str, Counts]
    again: Counts
    tail: Counts
    lag: Counts
    comparison: str

    @property
    def hash(self) -> str:
        """SHA-256 of what is done. The counts are not part of it."""
        return hash_of({"step": self.step, "old": self.old, "clone": self.clone, "outputs": self.outputs})

    @property
    def parts(self) -> dict[str, object]:
        return {
            "the direction (cut-over or roll-back)": self.step,
            "the old application": self.old,
            "the clone": self.clone,
            "the outputs that are transferred": self.outputs,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePlan(PairPlan):
    """An offline upgrade: the old application is stopped for a savepoint, and the clone is started from it with the real outputs."""

    running: tuple[str, ...]

    @property
    def hash(self) -> str:
        """SHA-256 of what is done. The running instances are not part of it."""
        return hash_of({"step": "upgrade", "old": self.old, "clone": self.clone, "outputs": self.outputs})

    @property
    def parts(self) -> dict[str, object]:
        return {"the old application": self.old, "the clone": self.clone, "the outputs that are transferred": self.outputs}


def upgrade_plan(pair: Pair) -> UpgradePlan:
    """The plan as of now."""
    return UpgradePlan(
        old=pair.old.application_id,
        clone=pair.clone.application_id,
        outputs=pair.outputs,
        running=pair.old.alive,
        warnings=tuple(_warnings(pair, CutoverStep.CUT_OVER)),
    )


def beyond(offsets: Counts, others: Counts) -> dict[TopicPartition, int]:
    """By how much ``offsets`` are above ``others``, where they are. An offset that is not committed counts as 0."""
    return {tp: more for tp, offset in sorted(offsets.items()) if (more := offset - others.get(tp, 0)) > 0}


def cutover_plan(pair: Pair, step: CutoverStep, comparison: str = "") -> CutoverPlan:
    """The plan at present, with what is known of the ``comparison`` of the outputs. ``problems`` says whether it may be carried out."""
    old, clone = pair.old, pair.clone
    cut_over = step is CutoverStep.CUT_OVER
    done = clone.role is Role.LIVE if cut_over else old.role is Role.LIVE
    return CutoverPlan(
        step=step,
        old=old.application_id,
        clone=clone.application_id,
        outputs=pair.outputs,
        running={side.application_id: side.alive for side in (old, clone)},
        offsets={side.application_id: side.committed for side in (old, clone)},
        again={} if done else pair.old_ahead if cut_over else pair.clone_ahead,
        tail={} if done else clone.unread if cut_over else old.unread,
        lag=pair.lag,
        warnings=tuple(_warnings(pair, step)),
        comparison=comparison if cut_over else "",
    )


def _warnings(pair: Pair, step: CutoverStep) -> Iterable[str]:
    if step is CutoverStep.CUT_OVER:
        yield from unwritten(pair)
    if step is CutoverStep.ROLL_BACK and (gone := _inputs_gone(pair)):
        yield f"inputs that {pair.old.application_id} read when it was retired are gone, and what it had not read of them is lost: {first_names(gone)}"
    if step is CutoverStep.ROLL_BACK and not pair.old.alive and not pair.old.trusted:
        yield f"{pair.old.application_id} was not seen to close cleanly: its state may hold more than its offsets say, and that is counted twice"


def _inputs_gone(pair: Pair) -> list[str]:
    """Topics that the old application had read when it was retired and that are gone, such as one that a pattern matched. The broker forgets the offsets of a
    deleted topic.
    """
    return sorted({tp.topic for tp in pair.old.retired_offsets or {}} - {tp.topic for tp in pair.starts})


def further(pair: Pair) -> tuple[str, ...]:
    """Real names of outputs that the clone writes and the old application does not: there is nothing to compare them with."""
    return tuple(sorted(set(pair.outputs.values()) - set(pair.old.outputs)))


def unwritten(pair: Pair) -> tuple[str, ...]:
    """Outputs of the old application without one of the clone, as one sentence: after a cut-over no application writes them, and nothing compares them."""
    names = sorted(set(pair.old.outputs) - set(pair.outputs.values()))
    return (f"outputs of {pair.old.application_id} that {pair.clone.application_id} does not write: {', '.join(names)}",) if names else ()


def problems(pair: Pair, step: CutoverStep, *, max_lag: int, restore_first: bool = False) -> tuple[str, ...]:
    """Everything that blocks a cut-over or a roll-back, all at once. With ``restore_first`` a roll-back leaves the old application down, to be
    restored.
    """
    if step is CutoverStep.CUT_OVER:
        return (*_both(pair), *_strangers(pair), *_against_cut_over(pair, max_lag))
    # What both logs together contradict is taken back whomever it names: nothing else would end it.
    forged = pair.old.role is pair.clone.role is Role.LIVE
    in_use = _strangers(pair, only_in_use=True)
    return (*_both(pair, but=pair.clone if forged else None), *in_use, *(() if restore_first else _against_roll_back(pair)))


def upgrade_problems(pair: Pair) -> tuple[str, ...]:
    """Everything that blocks an offline upgrade, all at once."""
    found = [*_both(pair), *_strangers(pair), *_same_topics(pair)]
    if pair.clone.role is not Role.STANDBY:
        found.append(f"{pair.clone.application_id} is {pair.clone.role} already")
    found += [_unfinished(pair.old)] if pair.old.unfinished else []
    if pair.clone.alive:
        found.append(f"{pair.clone.application_id} runs ({', '.join(pair.clone.alive)}); its state is replaced, so it must be down")
    return tuple(found)


def _both(pair: Pair, *, but: Side | None = None) -> Iterable[str]:
    """``but`` is the one whose log may name another application."""
    for side, other in ((pair.old, pair.clone), (pair.clone, pair.old)):
        if side.unknown:
            yield f"the state of instances of {side.application_id} is unknown: {', '.join(side.unknown)}"
        if side.other not in (None, other.application_id) and side is not but:
            yield f"{side.application_id} is {side.role} towards {side.other}, not {other.application_id}"
    if not pair.same_cluster:
        yield "the two applications are not on one cluster"


def _strangers(pair: Pair, *, only_in_use: bool = False) -> Iterable[str]:
    """Entries towards applications that nobody has configured. A roll-back ends them, unless such an application is at work."""
    for side in (pair.old, pair.clone):
        if side.stranger is None or (only_in_use and not side.stranger_in_use):
            continue
        says = (
            f"the log of {side.application_id} names {side.stranger}, and no application of that id is configured: the entry is not proven"
        )
        if side.stranger_in_use:
            yield f"{says}, but {side.stranger} is in use ({first_names(side.stranger_in_use)}): configure it, or stop it"
        else:
            yield f"{says}. Roll {pair.clone.application_id} back, which ends it, and start it again"


def _same_topics(pair: Pair) -> Iterable[str]:
    for what in ("inputs", "globals"):
        mine, theirs = set(getattr(pair.clone, what)), set(getattr(pair.old, what))
        if mine != theirs:
            yield f"{what} differ: {', '.join(sorted(mine ^ theirs))} are read by one of the two only"


def _against_cut_over(pair: Pair, max_lag: int) -> Iterable[str]:
    old, clone = pair.old, pair.clone
    yield from _same_topics(pair)
    if clone.role is Role.LIVE:
        if old.role is Role.LIVE:
            yield (
                f"{clone.application_id} is live by its log, and {old.application_id} by its own, which no cut-over leaves: roll {clone.application_id} back, "
                "start it, and cut it over then"
            )
        return
    yield from _state_problems(pair)
    if sum(pair.lag.values()) > max_lag:
        yield f"{clone.application_id} is {sum(pair.lag.values())} records behind its input, more than {max_lag}: {counts_text(pair.lag)}"
    if not old.alive:
        if pair.clone_ahead:
            yield (
                f"{old.application_id} is down, and {clone.application_id} has read input that it has not, whose output would be missing: "
                f"{counts_text(pair.clone_ahead)}"
            )
        if old.unread and not pair.old_has_read:
            yield f"{old.application_id} is down with unread records in repartition topics, whose output would be missing: {counts_text(old.unread)}"


def _state_problems(pair: Pair) -> Iterable[str]:
    clone = pair.clone
    yield from (_unfinished(side) for side in (pair.old, pair.clone) if side.unfinished)
    if not clone.alive and not clone.trusted:
        yield f"{clone.application_id} was not seen to close cleanly, so its state may hold more than its offsets say: clone it again"
    yield from _origin_problems(pair)


def comparison_problems(pair: Pair) -> tuple[str, ...]:
    """Everything that blocks a comparison of the outputs, all at once: without these both applications have processed the same input from one state on."""
    found = [] if pair.same_cluster else ["the two applications are not on one cluster"]
    found += [*_same_topics(pair), *(_unfinished(side) for side in (pair.old, pair.clone) if side.unfinished), *_origin_problems(pair)]
    if pair.clone.role is not Role.STANDBY or pair.old.role is Role.RETIRED:
        found.append(f"{pair.clone.application_id} is {pair.clone.role}: it writes the real outputs, or did so last")
    return tuple(found)


def _origin_problems(pair: Pair) -> Iterable[str]:
    clone, origin = pair.clone, pair.origin
    if origin is None:
        yield f"{clone.application_id} was not restored from a savepoint: nothing is known of its state"
        return
    if origin.source != pair.old.application_id:
        yield f"the state of {clone.application_id} is that of {origin.source}, not of {pair.old.application_id}"
    if origin.consistency is not Consistency.EXACT or not origin.proven:
        yield f"the state of {clone.application_id} comes from savepoint {origin.savepoint_id}, which is {origin.consistency}" + (
            "" if origin.proven else ", and it was not proven equal"
        )
    if origin.offsets != "exact":
        yield f"{clone.application_id} began at offsets by `{origin.offsets}`, which are not those of its state"
    if origin.altered:
        yield f"topics of {clone.application_id} were restored alone since it was made, its state is not that of one savepoint: {first_names(origin.altered)}"


def _unfinished(side: Side) -> str:
    return f"restore {side.unfinished} of {side.application_id} failed half way"


def _against_roll_back(pair: Pair) -> Iterable[str]:
    old = pair.old
    if old.alive:
        return
    instead = "roll back with `restore_first`, which leaves it down, and restore it from a savepoint"
    if old.unfinished:
        yield f"{_unfinished(old)}; {instead}"
    gone = beyond(pair.starts, old.committed)
    if gone:
        yield f"{old.application_id} would skip input that was deleted since it stopped: {counts_text(gone)}; {instead}"
    gone_topics = _inputs_gone(pair)
    moved = [
        tp
        for tp, offset in sorted((old.retired_offsets or {}).items())
        if tp.topic not in gone_topics and old.committed.get(tp, 0) != offset
    ]
    if moved:
        yield f"offsets of {old.application_id} are not those it had when it was retired: {first_names(moved, _NAMED)}; {instead}"


def counts_text(counts: Counts) -> str:
    """The first few partitions with their counts, as text."""
    return first_names([f"{tp} by {count}" for tp, count in counts.items()], _NAMED)


def cutover_text(plan: CutoverPlan) -> Markdown:
    """The plan in the order in which it would be carried out."""
    old, clone = code(plan.old), code(plan.clone)
    over = plan.step is CutoverStep.CUT_OVER
    steps = _cut_over(plan) if over else _roll_back(plan)
    return joined(
        [
            md("### Cut over from {} to {}", old, clone) if over else md("### Roll back from {} to {}", clone, old),
            _EMPTY,
            md("Plan {}.", code(plan.hash[:12])),
            _EMPTY,
            *warned(plan.warnings),
            *steps,
            _EMPTY,
            md("As of now, output of **{:,} input records** would come twice{}. None is lost.", sum(plan.again.values()), _tail(plan)),
            _EMPTY,
            *([md("{}", plan.comparison), _EMPTY] if plan.comparison else []),
            *_table(plan),
        ]
    )


def upgrade_text(plan: UpgradePlan) -> Markdown:
    """The plan of an upgrade."""
    old, clone, running = code(plan.old), code(plan.clone), ", ".join(plan.running) or "none is running"
    return joined(
        [
            md("### Upgrade from {} to {}", old, clone),
            _EMPTY,
            *warned(plan.warnings),
            md("1. **Stop** {} ({}) and take an exact savepoint of it. It stays down.", old, running),
            md("2. **Restore** {} from it, compared record by record.", clone),
            md("3. **Start** {} with the outputs {}, exactly where {} stopped.", clone, _renamed(plan.outputs), old),
            _EMPTY,
            _UPGRADED,
        ]
    )


def _renamed(outputs: Mapping[str, str]) -> str:
    return ", ".join(real if own == real else f"{own} → {real}" for own, real in sorted(outputs.items()))


def _cut_over(plan: CutoverPlan) -> list[Markdown]:
    old, clone = code(plan.old), code(plan.clone)
    behind = sum(plan.lag.values())
    return [
        md("1. **Stop** {} ({}), which is {:,} records behind its input.", clone, _running(plan, plan.clone), behind),
        md(
            "2. **Wait** until {} has processed at least as much, including its repartition topics, and **stop** it ({}). Nothing of it is deleted.",
            old,
            _running(plan, plan.old),
        ),
        md("3. **Start** {} with the outputs {}.", clone, _renamed(plan.outputs)),
    ]


def _roll_back(plan: CutoverPlan) -> list[Markdown]:
    old, clone = code(plan.old), code(plan.clone)
    stopped = _running(plan, plan.clone)
    return [
        md("1. **Stop** {} ({}). Nothing of it is deleted. If it is started again, it writes its own outputs.", clone, stopped),
        md("2. **Start** {} ({}) where it stopped.", old, _running(plan, plan.old)),
    ]


def _running(plan: CutoverPlan, application_id: str) -> str:
    return ", ".join(plan.running[application_id]) or "none is running"


def _tail(plan: CutoverPlan) -> Markdown:
    return md(", and output of {:,} unread records of repartition topics", sum(plan.tail.values())) if plan.tail else _EMPTY


def _table(plan: CutoverPlan) -> list[Markdown]:
    old, clone = plan.offsets[plan.old], plan.offsets[plan.clone]
    partitions = sorted({*old, *clone})
    rows = [
        md("| {} | {} | {} | {:,} | {:,} |", tp, old.get(tp, "-"), clone.get(tp, "-"), plan.lag.get(tp, 0), plan.again.get(tp, 0))
        for tp in partitions[:_SHOWN]
    ]
    more = [md("| {} more | | | | |", len(partitions) - _SHOWN)] if len(partitions) > _SHOWN else []
    head = md("| partition | {} has read to | {} | behind | twice |", code(plan.old), code(plan.clone))
    return [head, md("|---|---:|---:|---:|---:|"), *rows, *more]
