"""The evidence of a restore for people: a self-contained page in markdown."""

from __future__ import annotations

from collections import Counter

from streams_recovery.core.restore.proofs import Proof
from streams_recovery.core.restore.report import RestoreReport, TopicEvidence, Verdict
from streams_recovery.core.text.escaping import Markdown, code, joined, md
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.core.text.units import span

_EMPTY = md("")
_VERDICTS = {
    Verdict.EQUAL: md("**Equal.** Every restored record and every key is the same as in the savepoint."),
    Verdict.DIFFERENT: md("**NOT EQUAL.** The restored records differ from the savepoint, or were not all compared."),
    Verdict.NOTHING_COMPARED: md("**NOTHING WAS COMPARED.** This does not prove that the state is the same as in any savepoint."),
}
_NO_STATE = md("No state was restored: it was built again from the input, and there was nothing to compare it with.")

_DIGESTS = md(
    "The digest of a topic is SHA-256 over a line `{{partition}} {{records}} {{digest}}` for each of its partitions. The digest of a partition is SHA-256 "
    "over key, value, headers and timestamp of every record in order."
)
_NAMES = {Proof.ROWS: "records", Proof.KEYS: "records and keys", Proof.EMPTY: "being empty"}
_PROOFS = md(
    "Proven by records: the digest over every record in order is the same in the savepoint and in the topic, so all keys are the same too. By keys: the newest "
    "record of each key was compared too. By being empty: there is no record on either side."
)
_FILES = md(
    "The manifest of a savepoint has the SHA-256 of every file that it names. A check at level full reads the files again and compares them."
)


def page(report: RestoreReport, sha256: str) -> Markdown:
    """The page. ``sha256`` is that of the JSON it is made from."""
    by_key = md(", and {:,} keys one by one", report.keys_compared) if report.keys_compared else _EMPTY
    return joined(
        [
            md("# Restore {} of {}", code(report.restore_id), code(report.application_id)),
            _EMPTY,
            _VERDICTS[report.verdict],
            *([_NO_STATE] if report.savepoint_id is None and report.topics else []),
            _EMPTY,
            md("{:,} records were compared in {} topics{}.", report.rows, len(report.topics), by_key),
            *([md("Not proven: {}.", ", ".join(report.missing))] if report.missing else []),
            _EMPTY,
            md("| what | |"),
            md("|---|---|"),
            *(md("| {} | {} |", name, value) for name, value in _facts(report)),
            _EMPTY,
            md("## Topics"),
            _EMPTY,
            md("| topic | role | partitions | records | keys | proven |"),
            md("|---|---|---:|---:|---:|---|"),
            *map(_row, report.topics),
            _EMPTY,
            _PROOFS,
            _EMPTY,
            md("## SHA-256 of the topics' records: in the savepoint, and as restored"),
            _EMPTY,
            *(md("- {}: {}, {}", one.topic, code(one.archived_digest), code(one.restored_digest)) for one in report.topics),
            _EMPTY,
            _DIGESTS,
            _EMPTY,
            *_asked(report),
            md("## How to check this page"),
            _EMPTY,
            *(
                md("- manifest of {}: {}", one, code(found) if found else md("it no longer existed at the end"))
                for one, found in report.manifests.items()
            ),
            md("- plan: {}", code(report.plan_hash)),
            _EMPTY,
            md("This page was made from `report.json` in the same directory, whose SHA-256 is {}.", code(sha256)),
            _FILES,
            _EMPTY,
        ]
    )


def _asked(report: RestoreReport) -> list[Markdown]:
    if not report.query_checks:
        return []
    return [
        md("## Answers of the application to queries"),
        _EMPTY,
        md(
            "The newest keys of the savepoint were queried in the running application. Keys that were written again since, or cannot be read, are not compared."
        ),
        _EMPTY,
        md("| store | keys | equal | written again | not readable | different |"),
        md("|---|---:|---:|---:|---:|---:|"),
        *(
            md("| {} | {} | {} | {} | {} | {} |", one.store, one.sampled, one.equal, one.changed, one.unreadable, len(one.different))
            for one in report.query_checks
        ),
        _EMPTY,
    ]


def _facts(report: RestoreReport) -> list[tuple[str, str]]:
    """Names and values. What is no Markdown is escaped where it is shown."""
    seconds = report.seconds or {}
    return [
        ("savepoint", _savepoint(report)),
        *([("as of", f"{moment(report.point.as_of.moment)} by {report.point.as_of.by}")] if report.point else []),
        ("requested by", f"{report.requested_by}: {report.reason}" if report.reason else report.requested_by),
        ("began, ended", f"{moment(report.started_at)}, {moment(report.finished_at)}"),
        ("steps", ", ".join(f"{step} {span(value)}" for step, value in seconds.items()) or "in several attempts"),
        ("offsets set", md("{}, inputs by {}", report.offsets, code(report.strategy))),
        ("state from before", md("safety savepoint {}", code(report.safety_savepoint)) if report.safety_savepoint else "not saved"),
        ("retention not put back yet", ", ".join(report.still_held) or "none"),
    ]


def _savepoint(report: RestoreReport) -> str:
    if report.savepoint_id is None or report.captured_at is None:
        return "none: the state was built again from the input"
    source = _EMPTY if report.source_application_id == report.application_id else md(" of {}", code(report.source_application_id))
    captured = moment(report.captured_at)
    return md("{}{}, captured {}, consistency {}", code(report.savepoint_id), source, captured, report.consistency)


def _row(topic: TopicEvidence) -> Markdown:
    keys = "-" if topic.keys_compared is None else f"{topic.keys_compared:,}"
    return md("| {} | {} | {} | {:,} | {} | {} |", topic.topic, topic.role, len(topic.partitions), topic.rows, keys, _proof(topic))


def _proof(topic: TopicEvidence) -> Markdown:
    """How many partitions have which proof."""
    if not topic.proven:
        return md("**NO**")
    counts = Counter(one.proof for one in topic.partitions)
    return md("{}", ", ".join(f"{counts[proof]} by {_NAMES[proof]}" for proof in Proof if counts[proof]))
