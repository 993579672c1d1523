"""A compaction for people."""

from __future__ import annotations

from streams_recovery.core.compaction.plan import CompactionPlan, TopicCompaction


def compaction_text(plan: CompactionPlan) -> str:
    """The plan as markdown, every changelog with what becomes of it."""
    rows = sum(topic.rows for topic in plan.topics)
    size = sum(topic.payload_bytes for topic in plan.topics)
    what = f"{rows:,} records with {size:,} bytes in {len(plan.partitions)} partitions would be read, and the newest of each key kept."
    return "\n".join(
        [
            f"### Compaction of savepoint `{plan.savepoint_id}` of `{plan.application_id}`",
            "",
            what if plan.partitions else "There is nothing to compact.",
            "",
            "| changelog | store | records | about, after | stays as it is |",
            "|---|---|---:|---:|---|",
            *(_row(topic) for topic in plan.topics),
            "",
            "The savepoint itself stays. The new one has its cut and its time, and exists only when its state was compared and is the same.",
        ]
    )


def _row(topic: TopicCompaction) -> str:
    expected = "not known" if topic.expected_rows is None else f"{topic.expected_rows:,}"
    return f"| {topic.topic} | {topic.kind} | {topic.rows:,} | {expected if topic.partitions else '-'} | {'; '.join(topic.stays) or '-'} |"
