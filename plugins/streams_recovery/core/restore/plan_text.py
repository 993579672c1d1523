"""A restore plan for people: markdown that reads well on an approval page and in a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from streams_recovery.core.escaping import Markdown, code, joined, md, warned
from streams_recovery.core.kafka_types import Consistency, Evidence, TopicPartition
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.plan import RestorePlan, TopicToCreate
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.restore.single_topics import OtherReader, SingleTopics
from streams_recovery.core.rollout.compatibility import CompatibilityFinding, CompatibilityVerdict
from streams_recovery.core.rollout.upgrade import VersionChange
from streams_recovery.core.words import first_names, moment, span

# A page that is read before something irreversible should be read to its end.
_SHOWN = 40
_EMPTY = md("")
_TOPICS = (md("| topic | role | partitions | records | bytes | replaces |"), md("|---|---|---:|---:|---:|---|"))
_SAFETY = {
    SafetyPolicy.REQUIRED: md("**Save** the present state as a safety savepoint, so that `undo` can restore it."),
    SafetyPolicy.BEST_EFFORT: md("**Try to save** the present state as a safety savepoint. Continue without one if that fails."),
    SafetyPolicy.SKIP: md("**Save nothing**: the present state is lost, and `undo` cannot restore it."),
}
_LABELS = {
    Consistency.DAMAGED: md(
        "This savepoint is `damaged`: state that was missing when it was taken will be missing again, and these stores begin empty."
    ),
    Consistency.AHEAD: md("This savepoint is `ahead`: some input may be counted twice after the restore."),
}


def markdown(plan: RestorePlan) -> Markdown:
    """The plan in the order in which it would be carried out."""
    if plan.single is not None:
        return joined(_alone(plan, plan.single))
    if plan.upgrade is not None:
        return joined(_upgraded(plan, plan.upgrade))
    return joined(
        [
            *_head(plan),
            _EMPTY,
            *_duration(plan),
            *_archived(plan),
            *_point(plan),
            *_in_place(plan),
            *_warnings(plan),
            *_claimed(plan),
            *_evidence(plan),
            md("1. **Stop** {} and prove that they are stopped.", _instances(plan)),
            md("2. {}", _SAFETY[plan.safety]),
            *(_rebuilt(plan) if plan.from_input else _loaded(plan)),
            md("5. **Set {} committed offsets**, the inputs' by {}:", len(plan.offsets), code(plan.strategy)),
            _EMPTY,
            *_offsets(plan),
            _EMPTY,
            md("6. **Wipe** the local state of every instance."),
            md("7. {}**Start**, and wait until {}.", _deployed(plan), _catching_up(plan)),
            *([] if plan.from_input else [_EMPTY, _elsewhere(plan)]),
        ]
    )


def _deployed(plan: RestorePlan) -> Markdown:
    return md("**Deploy** by {}. ", code(shlex.join(plan.deploy))) if plan.deploy else _EMPTY


def _offsets(plan: RestorePlan) -> list[Markdown]:
    before = plan.observed.offsets_before
    after = {item.tp: str(item.wanted.offset) for item in plan.offsets} | dict.fromkeys(plan.offsets_kept, "stays")
    rows = [md("| {} | {} | {} |", tp, before.get(tp, "-"), offset) for tp, offset in sorted(after.items())]
    return _table([md("| partition | before | after |"), md("|---|---:|---:|")], rows)


def _alone(plan: RestorePlan, single: SingleTopics) -> list[Markdown]:
    """Single topics, beside a state that is not touched."""
    which = md(", only partitions {}", ", ".join(map(str, single.partitions))) if single.partitions else _EMPTY
    under = _EMPTY if single.in_place else md(" as {}", ", ".join(single.names))
    return [
        md("### Restore {} of {}{}{}", ", ".join(single.names.values()), code(plan.application_id), which, under),
        _EMPTY,
        md("From savepoint {}, captured **{}**. Plan {}.", code(plan.savepoint_id), moment(plan.captured_at or 0), code(plan.hash[:12])),
        md("**The state of the application stays as it is.**"),
        _EMPTY,
        *_duration(plan),
        *_cut(single),
        *_warnings(plan),
        md("1. **Create and load** {} topics with {:,} records:", len(plan.create), plan.rows),
        _EMPTY,
        *_TOPICS,
        *(_alone_row(topic, single) for topic in plan.create),
        _EMPTY,
        md("2. **Verify** every record against the savepoint."),
        *_alone_offsets(plan, single),
        *_readers(plan.observed.readers),
        *_afterwards(plan, single),
    ]


def _cut(single: SingleTopics) -> list[Markdown]:
    if single.as_of is None:
        return []
    at = md("Only records as of **{}** ({} ms) by **{}**", moment(single.as_of.moment), single.as_of.moment, single.as_of.by)
    return [md("{}: {:,} archived records are later and stay in the savepoint.", at, single.later), _EMPTY]


def _alone_row(topic: TopicToCreate, single: SingleTopics) -> Markdown:
    replaced = md("an empty topic") if topic.replaces else md("nothing")
    if topic.name in single.filled:
        replaced = md("nothing: its empty partitions are filled")
    loaded = [part for part in topic.partitions if not single.partitions or part.partition in single.partitions]
    return md("| {} | {} | {} | {:,} | {:,} | {} |", topic.name, topic.role, len(loaded), topic.rows, topic.payload_bytes, replaced)


def _alone_offsets(plan: RestorePlan, single: SingleTopics) -> list[Markdown]:
    if not plan.offsets:
        return [md("3. **No committed offset** is set."), _EMPTY]
    return [
        md("3. **Set {} committed offsets** of {}, where its state ends:", len(plan.offsets), code(plan.application_id)),
        _EMPTY,
        *_table(
            [md("| partition | offset | why this one |"), md("|---|---:|---|")],
            [md("| {} | {} | {} |", one.tp, one.wanted.offset, single.known[one.tp]) for one in plan.offsets],
        ),
        _EMPTY,
        md("{:,} input records are left to be processed.", plan.observed.records_to_catch_up),
        _EMPTY,
    ]


def _readers(readers: tuple[OtherReader, ...]) -> list[Markdown]:
    if not readers:
        return []

    def row(one: OtherReader) -> Markdown:
        before = "-" if one.before is None else f"{one.before}{' at the savepoint' if one.saved else ''}"
        return md("| {} | {} | {} | {} |", one.group, one.tp, before, "-" if one.there is None else one.there)

    return [
        md(
            "**Other groups read these topics, and nobody moves them.** Kafka deletes their offsets with the topic: then each begins by its auto.offset.reset."
        ),
        md(
            "One that kept an offset goes on at that number, which is another record now. Stop them, and set their offsets, before anybody writes."
        ),
        _EMPTY,
        *_table([md("| other group | partition | had read to | the same record is at |"), md("|---|---|---:|---:|")], [*map(row, readers)]),
        _EMPTY,
    ]


def _afterwards(plan: RestorePlan, single: SingleTopics) -> list[Markdown]:
    if not single.in_place:
        return [md("The copy keeps its records until somebody sets its retention. No application reads it.")]
    wiped = [
        md("4. **Wipe** the local state of every instance: a store is restored from one of these topics, and its offsets are others now."),
        _EMPTY,
    ]
    return [
        *(wiped if single.wipes else []),
        md("Keep every producer of these topics stopped until the restore is over. What they were sent after the savepoint is lost."),
        md("The application stays stopped. Start {} when the restore is over.", code(plan.application_id)),
    ]


def _upgraded(plan: RestorePlan, upgrade: VersionChange) -> list[Markdown]:
    """A new version that goes on with the state that is there."""
    inputs = len({tp.topic for tp in plan.offsets_kept})
    wiped = [md("**Wipe** the local state of every instance: subtopologies have other numbers, so it is restored from the changelogs.")]
    lag = _EMPTY if upgrade.watch.max_lag is None else md(", or when it stays more than {:,} records behind", upgrade.watch.max_lag)
    steps = [
        md("**Stop** {} and prove that they are stopped.", _instances(plan)),
        md("**Save** the state as a safety savepoint, and compare the new version with it once more."),
        *(wiped if upgrade.wipes else []),
        md(
            "{}**Start**, and wait until its input is processed. It reads on in {} inputs where the old version stopped.",
            _deployed(plan),
            inputs,
        ),
        md(
            "**Watch** it for **{}**. It fails when an instance ends, when nothing is committed for {} although records are left{}.",
            span(upgrade.watch.seconds),
            span(upgrade.watch.patience),
            lag,
        ),
    ]
    made = [md("The new version makes the topics {}. The way back deletes them.", first_names(upgrade.new_topics)), _EMPTY]
    return [
        md("### Upgrade {} in place", code(plan.application_id)),
        _EMPTY,
        md(
            "**{}**: the new version was compared with savepoint {}. Plan {}.",
            upgrade.verdict,
            code(upgrade.compared_with),
            code(plan.hash[:12]),
        ),
        _EMPTY,
        *_findings(upgrade),
        *_warnings(plan),
        *(md("{}. {}", number, one) for number, one in enumerate(steps, 1)),
        _EMPTY,
        *(made if upgrade.new_topics else []),
        md(
            "**When it fails** the old version comes back by itself: {} deploys it, and `undo` restores the state of step 2. What the new version has "
            "processed is processed again, so its results come twice.",
            code(shlex.join(upgrade.roll_back)),
        ),
        md("Where only the deployment fails, the old version is deployed again and started, and nothing is restored."),
    ]


def _findings(upgrade: VersionChange) -> list[Markdown]:
    if not upgrade.findings and not upgrade.not_compared:
        return []
    rows = [md("| {} | {} | {}{} |", one.subject, one.kind, one.text, _said(one)) for one in upgrade.findings]
    return [
        *([*_table([md("| what | finding | what it means |"), md("|---|---|---|")], rows), _EMPTY] if rows else []),
        *(md("Not compared: {}.", one) for one in upgrade.not_compared),
        *([_EMPTY] if upgrade.not_compared else []),
    ]


def _said(one: CompatibilityFinding) -> Markdown:
    if not one.accepted:
        return _EMPTY
    return md(" **A person has looked at this.**") if one.verdict is CompatibilityVerdict.DOUBT else md(" **This may go.**")


def _claimed(plan: RestorePlan) -> list[Markdown]:
    if not plan.claimed:
        return []
    return [
        md(
            "By their names these could be internal topics of {}. They stay as they are. If one belongs to this application, name its store "
            "under `stores`, or the topic under `topics.owned`, in the configuration.",
            code(plan.application_id),
        ),
        _EMPTY,
        md("| topic | why |"),
        md("|---|---|"),
        *(md("| {} | {} |", one.topic, one.why) for one in plan.claimed),
        _EMPTY,
    ]


_EVIDENCE = {
    Evidence.STORE: md("the configuration has its store"),
    Evidence.COMMITTED: md("its consumer group has committed offsets on it, or on the repartition topic of the same name"),
    Evidence.NAMED: md("**only because it was named**, in the request or under `topics.owned`"),
    Evidence.RESTORED: md("a restore created it"),
    Evidence.SAVEPOINT: md("a savepoint has it"),
    Evidence.NAME: md("its name"),
}


def _evidence(plan: RestorePlan) -> list[Markdown]:
    """Evidence for the topics that go, the rarest words last, since those are read one by one."""
    by_evidence = {why: [name for name, found in plan.evidence.items() if found is why] for why in Evidence}
    lines = [md("- {}: {}", first_names(names, most=_SHOWN), _EVIDENCE[why]) for why, names in by_evidence.items() if names]
    head = md("Why the internal topics that go are taken for those of {}:", code(plan.application_id))
    return [head, _EMPTY, *lines, _EMPTY] if lines else []


def _catching_up(plan: RestorePlan) -> Markdown:
    count = plan.observed.records_to_catch_up
    if plan.point is not None:
        return md("{:,} input records are processed and every repartition topic is read to its end; then **stop**", count)
    if plan.from_input:
        return md("{:,} input records are processed", count)
    return md("{:,} input records past the savepoint are processed again", count)


def _head(plan: RestorePlan) -> list[Markdown]:
    application, own = code(plan.application_id), code(plan.hash[:12])
    if plan.point is not None and plan.point.slice is not None:
        interval = plan.point.slice.interval
        state = md("the state of savepoint {}", code(plan.savepoint_id)) if plan.point.with_state else md("no state")
        return [
            md("### Process {} to {} again as {}{}", moment(interval.start), moment(interval.end), application, _source(plan)),
            _EMPTY,
            md("From {}. Plan {}.", state, own),
        ]
    if plan.captured_at is None:
        source = (
            md("Without a savepoint")
            if plan.inputs_from is None
            else md("Lost inputs, globals and outputs come from savepoint {}", code(plan.inputs_from))
        )
        return [md("### Rebuild the state of {} from its input", application), _EMPTY, md("{}. Plan {}.", source, own)]
    if plan.move is not None:
        return _moved(plan, plan.move)
    return [
        md("### Restore {} from savepoint {}{}", application, code(plan.savepoint_id), _source(plan)),
        _EMPTY,
        md("{}, consistency **{}**. Plan {}.", _captured(plan), plan.consistency, own),
    ]


def _captured(plan: RestorePlan) -> Markdown:
    if plan.state is None:
        return md("Captured **{}**", moment(plan.captured_at or 0))
    return md("State of **{}**, when the archiver took an exact cut behind the savepoint", moment(plan.state.at))


def _moved(plan: RestorePlan, move: SiteMove) -> list[Markdown]:
    left = (
        md("**It is left on your word that it cannot be reached.** What is left there is stopped as soon as it answers again.")
        if move.lost
        else md("It is stopped there first, and that is proven.")
    )
    kept = [md("Inputs that are there already: {}. It reads on where the same records stand.", ", ".join(move.kept))] if move.kept else []
    return [
        md("### Move {} from the site {} to {}", code(plan.application_id), code(move.before), code(move.to)),
        _EMPTY,
        md(
            "With savepoint {}. {}, consistency **{}**. Plan {}.",
            code(plan.savepoint_id),
            _captured(plan),
            plan.consistency,
            code(plan.hash[:12]),
        ),
        left,
        *kept,
        md("Topics, offsets and local state below are those of the site {}. From step 3 on the application belongs there.", code(move.to)),
    ]


def _duration(plan: RestorePlan) -> list[Markdown]:
    expected = plan.observed.estimate
    if expected is None:
        return []
    steps = ", ".join(f"{step} {span(seconds)}" for step, seconds in expected.seconds.items())
    basis = (
        f"measured in the last {expected.measured} restores and drills"
        if expected.measured
        else "from default rates: none was measured here yet"
    )
    return [md("Estimated time: **{}** ({}), {}.", span(expected.total), steps, basis), _EMPTY]


def _loaded(plan: RestorePlan) -> list[Markdown]:
    return [
        *_deletions(plan),
        md("3. **Create and load** {} topics with {:,} records:", len(plan.create), plan.rows),
        _EMPTY,
        *_TOPICS,
        *(_topic_row(topic, plan) for topic in plan.create),
        _EMPTY,
        md("4. **Verify** every record against the savepoint."),
    ]


def _rebuilt(plan: RestorePlan) -> list[Markdown]:
    if not plan.loads:
        return [*_emptied(plan), _EMPTY, md("4. **Prove** that no internal topic is left.")]
    return [
        md(
            "3. **Delete** {} internal topics, **create and load** {} topics with {:,} records:",
            len(plan.delete),
            len(plan.create),
            plan.rows,
        ),
        _EMPTY,
        *_TOPICS,
        *(md("| {} | internal | - | - | - | deleted |", topic.name) for topic in plan.delete),
        *(_topic_row(topic, plan) for topic in plan.create),
        _EMPTY,
        md("4. **Verify** every record against the savepoint, and **prove** that no internal topic is left."),
    ]


def _emptied(plan: RestorePlan) -> list[Markdown]:
    gone = [(topic.name, "deleted") for topic in plan.delete] + [(topic.name, "created again, empty") for topic in plan.create]
    outputs = md(" and **empty** {} outputs:", len(plan.create)) if plan.create else md(":")
    return [
        md("3. **Delete** {} internal topics{}", len(plan.delete), outputs),
        _EMPTY,
        md("| topic | offsets in it | then |"),
        md("|---|---:|---|"),
        *(md("| {} | {:,} | {} |", name, plan.observed.offsets_replaced.get(name, 0), then) for name, then in gone),
    ]


def _archived(plan: RestorePlan) -> list[Markdown]:
    found = plan.archived
    if found is None:
        return []
    return [
        md(
            "Input up to **{}**: {:,} records of inputs and globals were archived behind the savepoint, and are loaded too.",
            moment(found.safe_at),
            found.records,
        ),
        _EMPTY,
    ]


def _point(plan: RestorePlan) -> list[Markdown]:
    if plan.point is None:
        return []
    as_of = plan.point.as_of
    cuts = [
        (TopicPartition(topic.name, part.partition), part.cut) for topic in plan.create for part in topic.partitions if part.cut is not None
    ]
    leads = plan.deferred
    held = sum(cut.rows - leads[tp] for tp, cut in cuts if tp in leads)
    rows = [
        md("| {} | {:,} | {:,} | {} |", tp, cut.rows, cut.late, "none archived" if cut.first_later is None else cut.first_later)
        for tp, cut in cuts
    ]
    if plan.point.slice is not None:
        when = md("**{:,} input records of the interval**, and the input around it up to {}", plan.own_records, moment(as_of.moment))
    else:
        state = "the state of this savepoint and its" if plan.point.with_state else "no state, and all archived"
        when = md("As of **{}** ({} ms) by **{}**: {} input up to there", moment(as_of.moment), as_of.moment, as_of.by, state)
    last = md(" {:,} of these records are loaded after the application has processed the input before the interval.", held)
    return [
        md("{}, from the archive of {}.{}", when, code(plan.point.archive), last if held else _EMPTY),
        _EMPTY,
        *_table([md("| partition | records taken | late records among them | first later record |"), md("|---|---:|---:|---|")], rows),
        _EMPTY,
    ]


def _in_place(plan: RestorePlan) -> list[Markdown]:
    here = plan.in_place
    if here is None or plan.point is None:
        return []
    later = sum(topic.rows for topic in here.later)
    moved = [md("| {} | {} | {} | {} | {:,} |", one.group, one.tp, one.before, one.wanted.offset, one.again) for one in here.groups]
    head = [md("| other group | partition | before | after | later records it had read |"), md("|---|---|---:|---:|---:|")]
    return [
        md(
            "**In place: {:,} later records are removed from the inputs**, for every reader. These inputs are deleted and created again.",
            later,
        ),
        md("No producer wrote to any input for {:g} s, and no transaction is open there.", here.still_seconds),
        md("Keep all producers stopped until the restore is over. No check can prove that they stay stopped."),
        _EMPTY,
        md(
            "The removed records stay in savepoint {}, which is kept until `append-quarantine` appends them to the inputs again.",
            code(plan.point.archive),
        ),
        md("Their order relative to other records is then different. Results that outputs and other readers already have of them stay."),
        _EMPTY,
        *(
            md(
                "Share group {} begins anew in {}: the cluster deletes its position with the topic. It reads on from where share.auto.offset.reset says.",
                name,
                ", ".join(topics),
            )
            for name, topics in here.begin_anew.items()
        ),
        *(md("What the members of group {} read cannot be told. It was named, so they are not waited for.", name) for name in here.unseen),
        *([_EMPTY] if here.begin_anew or here.unseen else []),
        md("| input | later records |"),
        md("|---|---:|"),
        *(md("| {} | {:,} |", topic.name, topic.rows) for topic in here.later),
        _EMPTY,
        *([*_table(head, moved), _EMPTY] if moved else []),
    ]


def _source(plan: RestorePlan) -> Markdown:
    return _EMPTY if plan.source_application_id == plan.application_id else md(" of {}", code(plan.source_application_id))


def _elsewhere(plan: RestorePlan) -> Markdown:
    made = {topic.name for topic in plan.create}
    kept = sorted({item.tp.topic for item in plan.offsets} - made)
    return md(
        "{} Results of input that is processed again are written to the outputs once more.",
        md("The inputs {} stay as they are.", ", ".join(kept))
        if kept
        else md("All inputs come from the savepoint: later input is not in them.")
        if plan.archived is None
        else md(
            "All inputs come from the savepoint and the archive behind it: input that came after {} is not in them.",
            moment(plan.archived.safe_at),
        ),
    )


def _table(head: Sequence[Markdown], rows: Sequence[Markdown]) -> list[Markdown]:
    """The first rows below the two lines of ``head``, and how many more there are."""
    more, columns = len(rows) - _SHOWN, head[0].count("|") - 1
    rest = [md("| {} more, all of them in the plan as JSON{}", more, joined([md(" |")] * columns, _EMPTY))] if more > 0 else []
    return [*head, *rows[:_SHOWN], *rest]


def _instances(plan: RestorePlan) -> Markdown:
    names = plan.observed.instances
    return md("{} running instances ({})", len(names), ", ".join(names)) if names else md("all instances (none is running now)")


def _deletions(plan: RestorePlan) -> list[Markdown]:
    if not plan.delete:
        return []
    names = ", ".join(topic.name for topic in plan.delete)
    return [md("   **Delete** {} internal topics that are not in the savepoint: {}.", len(plan.delete), names)]


def _topic_row(topic: TopicToCreate, plan: RestorePlan) -> Markdown:
    existing = plan.observed.offsets_replaced.get(topic.name)
    replaced = md("**{:,} offsets**", existing) if existing else md("an empty topic") if topic.replaces else md("nothing")
    return md(
        "| {} | {} | {} | {:,} | {:,} | {} |", topic.name, topic.role, len(topic.partitions), topic.rows, topic.payload_bytes, replaced
    )


def _warnings(plan: RestorePlan) -> list[Markdown]:
    about = [_LABELS[plan.consistency]] if plan.consistency in _LABELS else []
    return warned([*about, *plan.warnings])
