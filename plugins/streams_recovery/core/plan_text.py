"""A restore plan for people: markdown that reads well on an approval page and in a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from streams_recovery.core.model import Consistency
from streams_recovery.core.plan import RestorePlan, TopicToCreate

# A page that is read before something irreversible should be read to its end.
_SHOWN_OFFSETS = 40


def markdown(plan: RestorePlan) -> str:
    """The plan in the order in which it would be carried out."""
    return "\n".join(
        [
            f"### Restore `{plan.application_id}` from savepoint `{plan.savepoint_id}`",
            "",
            f"Captured **{moment(plan.captured_at)}**, consistency **{plan.consistency}**. Plan `{plan.hash[:12]}`.",
            "",
            *_warnings(plan),
            f"1. **Stop** {_instances(plan)} and prove that they are gone.",
            f"2. **Create and load** {len(plan.create)} internal topics with {plan.rows:,} records:",
            "",
            "| topic | role | partitions | records | bytes | replaces |",
            "|---|---|---:|---:|---:|---|",
            *(_topic_row(topic) for topic in plan.create),
            "",
            "3. **Verify** every record against the savepoint, and every changelog key by key.",
            f"4. **Set {len(plan.offsets)} committed offsets** with their metadata:",
            "",
            "| partition | before | after |",
            "|---|---:|---:|",
            *(f"| {o.tp} | {plan.observed.offsets_before.get(str(o.tp), '-')} | {o.offset} |" for o in plan.offsets[:_SHOWN_OFFSETS]),
            *_further(plan),
            "",
            "5. **Wipe** the local state of every instance.",
            f"6. **Start**, and wait until {plan.observed.records_to_catch_up:,} input records past the savepoint are processed again.",
            "",
            "Inputs stay as they are. Outputs are outside the savepoint: results of the input that is processed again are written once more.",
        ]
    )


def _further(plan: RestorePlan) -> list[str]:
    more = len(plan.offsets) - _SHOWN_OFFSETS
    return [f"| {more} more, all of them in `plan restore --json` | | |"] if more > 0 else []


def moment(milliseconds: int) -> str:
    """A timestamp as people read it, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _instances(plan: RestorePlan) -> str:
    names = plan.observed.instances
    return f"{len(names)} running instances ({', '.join(names)})" if names else "all instances (none is running now)"


def _topic_row(topic: TopicToCreate) -> str:
    replaced = "an empty topic" if topic.replaces_empty else "nothing"
    return f"| {topic.name} | {topic.role} | {len(topic.partitions)} | {topic.rows:,} | {topic.payload_bytes:,} | {replaced} |"


def _warnings(plan: RestorePlan) -> list[str]:
    warnings = list(plan.warnings)
    if plan.consistency is Consistency.AHEAD:
        warnings.insert(0, "This savepoint is `ahead`: some input may be counted twice after the restore.")
    return [f"> **Warning:** {warning}" for warning in warnings] + ([""] if warnings else [])
