"""A restore plan for people: markdown that reads well on an approval page and in a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from streams_recovery.core.kafka_types import Consistency, Evidence, TopicPartition
from streams_recovery.core.restore.plan import RestorePlan, TopicToCreate
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.text.names import first_names
from streams_recovery.core.text.units import span

# A page that is read before something irreversible should be read to its end.
_SHOWN_OFFSETS = 40


_TOPICS = ("| topic | role | partitions | records | bytes | replaces |", "|---|---|---:|---:|---:|---|")
_SAFETY = {
    SafetyPolicy.REQUIRED: "**Save** the present state as a safety savepoint, so that `undo` can restore it.",
    SafetyPolicy.BEST_EFFORT: "**Try to save** the present state as a safety savepoint. Continue without one if that fails.",
    SafetyPolicy.SKIP: "**Save nothing**: the present state is lost, and `undo` cannot restore it.",
}


def markdown(plan: RestorePlan) -> str:
    """The plan in the order in which it would be carried out."""
    return "\n".join(
        [
            *_head(plan),
            "",
            *_duration(plan),
            *_point(plan),
            *_in_place(plan),
            *_warnings(plan),
            *_claimed(plan),
            *_evidence(plan),
            f"1. **Stop** {_instances(plan)} and prove that they are stopped.",
            f"2. {_SAFETY[plan.safety]}",
            *(_rebuilt(plan) if plan.from_input else _loaded(plan)),
            f"5. **Set {len(plan.offsets)} committed offsets**, the inputs' by `{plan.strategy}`:",
            "",
            "| partition | before | after |",
            "|---|---:|---:|",
            *(f"| {o.tp} | {plan.observed.offsets_before.get(str(o.tp), '-')} | {o.offset} |" for o in plan.offsets[:_SHOWN_OFFSETS]),
            *_further(plan),
            "",
            "6. **Wipe** the local state of every instance.",
            f"7. **Start**, and wait until {_catching_up(plan)}.",
            *([] if plan.from_input else ["", _elsewhere(plan)]),
        ]
    )


def _claimed(plan: RestorePlan) -> list[str]:
    if not plan.claimed:
        return []
    explanation = (
        f"By their names these could be internal topics of `{plan.application_id}`. They stay as they are. If one belongs to this application, name its store "
        "under `stores`, or the topic under `topics.owned`, in the configuration."
    )
    return [explanation, "", "| topic | why |", "|---|---|", *(f"| {one.topic} | {one.why} |" for one in plan.claimed), ""]


_EVIDENCE = {
    Evidence.STORE: "the configuration has its store",
    Evidence.COMMITTED: "its consumer group has committed offsets on it",
    Evidence.NAMED: "**only because it was named**, in the request or under `topics.owned`",
    Evidence.RESTORED: "a restore created it",
    Evidence.SAVEPOINT: "a savepoint has it",
    Evidence.NAME: "its name",
}


def _evidence(plan: RestorePlan) -> list[str]:
    """Whose the topics are that go: by evidence, the rarest words last, since those are read one by one."""
    by_evidence = {why: [name for name, found in plan.evidence.items() if found is why] for why in Evidence}
    lines = [f"- {first_names(names, most=_SHOWN_OFFSETS)}: {_EVIDENCE[why]}" for why, names in by_evidence.items() if names]
    return [f"Why the internal topics that go are taken for those of `{plan.application_id}`:", "", *lines, ""] if lines else []


def _catching_up(plan: RestorePlan) -> str:
    count = f"{plan.observed.records_to_catch_up:,} input records"
    if plan.point is not None:
        return f"{count} are processed and every repartition topic is read to its end; then **stop**"
    return f"{count} are processed" if plan.from_input else f"{count} past the savepoint are processed again"


def _head(plan: RestorePlan) -> list[str]:
    if plan.point is not None and plan.point.slice is not None:
        interval = plan.point.slice.interval
        state = f"the state of savepoint `{plan.savepoint_id}`" if plan.point.with_state else "no state"
        return [
            f"### Process {moment(interval.start)} to {moment(interval.end)} again as `{plan.application_id}`{_source(plan)}",
            "",
            f"From {state}. Plan `{plan.hash[:12]}`.",
        ]
    if plan.captured_at is None:
        source = (
            "Without a savepoint"
            if plan.inputs_from is None
            else f"Lost inputs, globals and outputs come from savepoint `{plan.inputs_from}`"
        )
        return [f"### Rebuild the state of `{plan.application_id}` from its input", "", f"{source}. Plan `{plan.hash[:12]}`."]
    return [
        f"### Restore `{plan.application_id}` from savepoint `{plan.savepoint_id}`{_source(plan)}",
        "",
        f"Captured **{moment(plan.captured_at)}**, consistency **{plan.consistency}**. Plan `{plan.hash[:12]}`.",
    ]


def _duration(plan: RestorePlan) -> list[str]:
    expected = plan.observed.estimate
    if expected is None:
        return []
    steps = ", ".join(f"{step} {span(seconds)}" for step, seconds in expected.seconds.items())
    basis = (
        f"measured in the last {expected.measured} restores and drills"
        if expected.measured
        else "from default rates: none was measured here yet"
    )
    return [f"Estimated time: **{span(expected.total)}** ({steps}), {basis}.", ""]


def _loaded(plan: RestorePlan) -> list[str]:
    return [
        *_deletions(plan),
        f"3. **Create and load** {len(plan.create)} topics with {plan.rows:,} records:",
        "",
        *_TOPICS,
        *(_topic_row(topic, plan) for topic in plan.create),
        "",
        "4. **Verify** every record against the savepoint.",
    ]


def _rebuilt(plan: RestorePlan) -> list[str]:
    if not plan.loads:
        return [*_emptied(plan), "", "4. **Prove** that no internal topic is left."]
    return [
        f"3. **Delete** {len(plan.delete)} internal topics, **create and load** {len(plan.create)} topics with {plan.rows:,} records:",
        "",
        *_TOPICS,
        *(f"| {topic.name} | internal | - | - | - | deleted |" for topic in plan.delete),
        *(_topic_row(topic, plan) for topic in plan.create),
        "",
        "4. **Verify** every record against the savepoint, and **prove** that no internal topic is left.",
    ]


def _emptied(plan: RestorePlan) -> list[str]:
    gone = [(topic.name, "deleted") for topic in plan.delete] + [(topic.name, "created again, empty") for topic in plan.create]
    return [
        f"3. **Delete** {len(plan.delete)} internal topics" + (f" and **empty** {len(plan.create)} outputs:" if plan.create else ":"),
        "",
        "| topic | offsets in it | then |",
        "|---|---:|---|",
        *(f"| {name} | {plan.observed.offsets_replaced.get(name, 0):,} | {then} |" for name, then in gone),
    ]


def _point(plan: RestorePlan) -> list[str]:
    if plan.point is None:
        return []
    as_of = plan.point.as_of
    state = "the state of this savepoint and its" if plan.point.with_state else "no state, and all archived"
    cuts = [(topic.name, part.partition, part.cut) for topic in plan.create for part in topic.partitions if part.cut is not None]
    more = len(cuts) - _SHOWN_OFFSETS
    leads = plan.deferred
    held = sum(cut.rows - leads[tp] for name, number, cut in cuts if (tp := TopicPartition(name, number)) in leads)
    when = f"As of **{moment(as_of.moment)}** ({as_of.moment} ms) by **{as_of.by}**: {state} input up to there"
    if plan.point.slice is not None:
        when = f"**{plan.own_records:,} input records of the interval**, and the input around it up to {moment(as_of.moment)}"
    last = f" {held:,} of these records are loaded after the application has processed the input before the interval." if held else ""
    return [
        f"{when}, from the archive of `{plan.point.archive}`.{last}",
        "",
        "| partition | records taken | late records among them | first later record |",
        "|---|---:|---:|---|",
        *(
            f"| {name}-{number} | {cut.rows:,} | {cut.late:,} | {'none archived' if cut.first_later is None else cut.first_later} |"
            for name, number, cut in cuts[:_SHOWN_OFFSETS]
        ),
        *([f"| {more} more, all of them in the plan as JSON | | | |"] if more > 0 else []),
        "",
    ]


def _in_place(plan: RestorePlan) -> list[str]:
    here = plan.in_place
    if here is None or plan.point is None:
        return []
    later = sum(topic.rows for topic in here.later)
    moved = [f"| {one.group} | {one.tp} | {one.before} | {one.offset} | {one.again:,} |" for one in here.groups[:_SHOWN_OFFSETS]]
    more = len(here.groups) - _SHOWN_OFFSETS
    return [
        f"**In place: {later:,} later records are removed from the inputs**, for every reader. These inputs are deleted and created again.",
        f"No producer wrote to any input for {here.still_seconds:g} s, and no transaction is open there.",
        "Keep all producers stopped until the restore is over. No check can prove that they stay stopped.",
        "",
        f"The removed records stay in savepoint `{plan.point.archive}`, which is kept until `append-quarantine` appends them to the inputs again.",
        "Their order relative to other records is then different. Results that outputs and other readers already have of them stay.",
        "",
        "| input | later records |",
        "|---|---:|",
        *(f"| {topic.name} | {topic.rows:,} |" for topic in here.later),
        "",
        *(
            ["| other group | partition | before | after | later records it had read |", "|---|---|---:|---:|---:|", *moved]
            if moved
            else []
        ),
        *([f"| {more} more, all of them in the plan as JSON | | | | |"] if more > 0 else []),
        *([""] if moved else []),
    ]


def _source(plan: RestorePlan) -> str:
    return "" if plan.source_application_id == plan.application_id else f" of `{plan.source_application_id}`"


def _elsewhere(plan: RestorePlan) -> str:
    made = {topic.name for topic in plan.create}
    kept = sorted({item.topic for item in plan.offsets} - made)
    stay = (
        f"The inputs {', '.join(kept)} stay as they are. " if kept else "All inputs come from the savepoint: later input is not in them. "
    )
    return stay + "Results of input that is processed again are written to the outputs once more."


def _further(plan: RestorePlan) -> list[str]:
    more = len(plan.offsets) - _SHOWN_OFFSETS
    return [f"| {more} more, all of them in the plan as JSON | | |"] if more > 0 else []


def moment(milliseconds: int) -> str:
    """A timestamp in UTC for people. A timestamp outside the calendar is shown as its number of milliseconds."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
        return f"{milliseconds} ms"


def _instances(plan: RestorePlan) -> str:
    names = plan.observed.instances
    return f"{len(names)} running instances ({', '.join(names)})" if names else "all instances (none is running now)"


def _deletions(plan: RestorePlan) -> list[str]:
    if not plan.delete:
        return []
    names = ", ".join(topic.name for topic in plan.delete)
    return [f"   **Delete** {len(plan.delete)} internal topics that are not in the savepoint: {names}."]


def _topic_row(topic: TopicToCreate, plan: RestorePlan) -> str:
    existing = plan.observed.offsets_replaced.get(topic.name)
    replaced = f"**{existing:,} offsets**" if existing else "an empty topic" if topic.replaces else "nothing"
    return f"| {topic.name} | {topic.role} | {len(topic.partitions)} | {topic.rows:,} | {topic.payload_bytes:,} | {replaced} |"


def _warnings(plan: RestorePlan) -> list[str]:
    warnings = list(plan.warnings)
    if plan.consistency is Consistency.DAMAGED:
        warnings.insert(
            0, "This savepoint is `damaged`: state that was missing when it was taken will be missing again, and these stores begin empty."
        )
    if plan.consistency is Consistency.AHEAD:
        warnings.insert(0, "This savepoint is `ahead`: some input may be counted twice after the restore.")
    return [f"> **Warning:** {warning}" for warning in warnings] + ([""] if warnings else [])
