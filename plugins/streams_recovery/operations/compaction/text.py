"""A compaction for people."""

from __future__ import annotations

from streams_recovery.core.compaction.plan import CompactionPlan, TopicCompaction
from streams_recovery.core.escaping import Markdown, code, joined, md


def compaction_text(plan: CompactionPlan) -> Markdown:
    """The plan, every changelog with what becomes of it."""
    what = md(
        "{:,} records with {:,} bytes in {} partitions would be read, and the newest of each key kept.",
        sum(topic.rows for topic in plan.topics),
        sum(topic.payload_bytes for topic in plan.topics),
        len(plan.partitions),
    )
    return joined(
        [
            md("### Compaction of savepoint {} of {}", code(plan.savepoint_id), code(plan.application_id)),
            md(""),
            what if plan.partitions else md("There is nothing to compact."),
            md(""),
            md("| changelog | store | records | about, after | stays as it is |"),
            md("|---|---|---:|---:|---|"),
            *map(_row, plan.topics),
            md(""),
            md(
                "The savepoint itself stays. The new one has its cut and its time, and exists only when its state was compared and is the same."
            ),
        ]
    )


def _row(topic: TopicCompaction) -> Markdown:
    expected = "not known" if topic.expected_rows is None else f"{topic.expected_rows:,}"
    after, stays = expected if topic.partitions else "-", "; ".join(topic.stays) or "-"
    return md("| {} | {} | {:,} | {} | {} |", topic.topic, topic.kind, topic.rows, after, stays)
