"""The evidence of a restore for people: a self-contained page in markdown."""

from __future__ import annotations

from collections import Counter

from streams_recovery.core.restore.proofs import Proof
from streams_recovery.core.restore.report import RestoreReport, TopicEvidence, Verdict
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.core.text.units import span

_VERDICTS = {
    Verdict.EQUAL: "**Equal.** Every restored record and every key is the same as in the savepoint.",
    Verdict.DIFFERENT: "**NOT EQUAL.** The restored records differ from the savepoint, or were not all compared.",
    Verdict.NOTHING_COMPARED: "**NOTHING WAS COMPARED.** This does not prove that the state is the same as in any savepoint.",
}
_NO_STATE = "No state was restored: it was built again from the input, and there was nothing to compare it with."

_DIGESTS = (
    "The digest of a topic is SHA-256 over a line `{partition} {records} {digest}` for each of its partitions. The digest of a partition is SHA-256 over "
    "key, value, headers and timestamp of every record in order."
)
_NAMES = {Proof.ROWS: "records", Proof.KEYS: "records and keys", Proof.EMPTY: "being empty"}
_PROOFS = (
    "Proven by records: the digest over every record in order is the same in the savepoint and in the topic, so all keys are the same too. By keys: the newest "
    "record of each key was compared too. By being empty: there is no record on either side."
)
_FILES = "The manifest of a savepoint has the SHA-256 of every file that it names. A check at level full reads the files again and compares them."


def page(report: RestoreReport, sha256: str) -> str:
    """The page. ``sha256`` is that of the JSON it is made from."""
    return "\n".join(
        [
            f"# Restore `{report.restore_id}` of `{report.application_id}`",
            "",
            _VERDICTS[report.verdict],
            *([_NO_STATE] if report.savepoint_id is None and report.topics else []),
            "",
            f"{report.rows:,} records were compared in {len(report.topics)} topics{_by_key(report)}.",
            *([f"Not proven: {', '.join(report.missing)}."] if report.missing else []),
            "",
            "| what | |",
            "|---|---|",
            *(f"| {name} | {value} |" for name, value in _facts(report)),
            "",
            "## Topics",
            "",
            "| topic | role | partitions | records | keys | proven |",
            "|---|---|---:|---:|---:|---|",
            *(_row(topic) for topic in report.topics),
            "",
            _PROOFS,
            "",
            "## SHA-256 of the topics' records: in the savepoint, and as restored",
            "",
            *(f"- {topic.topic}: `{topic.archived_digest}`, `{topic.restored_digest}`" for topic in report.topics),
            "",
            _DIGESTS,
            "",
            *_asked(report),
            "## How to check this page",
            "",
            *(
                f"- manifest of {one}: {f'`{sha256}`' if sha256 else 'it no longer existed at the end'}"
                for one, sha256 in report.manifests.items()
            ),
            f"- plan: `{report.plan_hash}`",
            "",
            f"This page was made from `report.json` in the same directory, whose SHA-256 is `{sha256}`.",
            _FILES,
            "",
        ]
    )


def _asked(report: RestoreReport) -> list[str]:
    if not report.query_checks:
        return []
    return [
        "## Answers of the application to queries",
        "",
        "The newest keys of the savepoint were queried in the running application. Keys that were written again since, or cannot be read, are not compared.",
        "",
        "| store | keys | equal | written again | not readable | different |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {one.store} | {one.sampled} | {one.equal} | {one.changed} | {one.unreadable} | {len(one.different)} |"
            for one in report.query_checks
        ),
        "",
    ]


def _facts(report: RestoreReport) -> list[tuple[str, str]]:
    return [
        ("savepoint", _savepoint(report)),
        *([("as of", f"{moment(report.point.as_of.moment)} by {report.point.as_of.by}")] if report.point else []),
        ("requested by", f"{_plain(report.requested_by)}: {_plain(report.reason)}" if report.reason else _plain(report.requested_by)),
        ("began, ended", f"{moment(report.started_at)}, {moment(report.finished_at)}"),
        (
            "steps",
            ", ".join(f"{step} {span(value)}" for step, value in report.seconds.items()) if report.seconds else "in several attempts",
        ),
        ("offsets set", f"{report.offsets}, inputs by `{_plain(report.strategy)}`"),
        ("state from before", f"safety savepoint `{report.safety_savepoint}`" if report.safety_savepoint else "not saved"),
        ("retention not put back yet", ", ".join(report.still_held) or "none"),
    ]


def _savepoint(report: RestoreReport) -> str:
    if report.savepoint_id is None or report.captured_at is None:
        return "none: the state was built again from the input"
    source = "" if report.source_application_id == report.application_id else f" of `{report.source_application_id}`"
    return f"`{report.savepoint_id}`{source}, captured {moment(report.captured_at)}, consistency {report.consistency}"


def _plain(text: str) -> str:
    """Text that a person wrote, escaped so that it cannot break the table or add markup."""
    return "".join(f"&#{ord(c)};" if c in "|`<>[]&*_" else c if c.isprintable() else " " for c in text)


def _by_key(report: RestoreReport) -> str:
    return f", and {report.keys_compared:,} keys one by one" if report.keys_compared else ""


def _row(topic: TopicEvidence) -> str:
    keys = "-" if topic.keys_compared is None else f"{topic.keys_compared:,}"
    return f"| {topic.topic} | {topic.role} | {len(topic.partitions)} | {topic.rows:,} | {keys} | {_proof(topic)} |"


def _proof(topic: TopicEvidence) -> str:
    """How many partitions have which proof."""
    if not topic.proven:
        return "**NO**"
    counts = Counter(one.proof for one in topic.partitions)
    return ", ".join(f"{counts[proof]} by {_NAMES[proof]}" for proof in Proof if counts[proof])
