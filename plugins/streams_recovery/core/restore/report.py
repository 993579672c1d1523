"""The evidence of a restore: what was compared, and hashes with which both sides can be checked again."""

from __future__ import annotations

import enum
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from streams_recovery.core import codec
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.names import store_name
from streams_recovery.core.restore.estimate import Sizes
from streams_recovery.core.restore.outputs_behind import ResultsBehind
from streams_recovery.core.restore.parts import IN_EVIDENCE, RestorePart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import RestoreFacts
from streams_recovery.core.restore.proofs import PartitionProof, Proof, QueryCheck, RowsCompared
from streams_recovery.core.rollout.upgrade import Watched
from streams_recovery.core.words import moment, span

EVIDENCE_VERSION: Final = 7


class Verdict(enum.StrEnum):
    """The verdict of a restore's evidence. ``NOTHING_COMPARED``: there was nothing to restore, or it was not compared. Neither proves anything."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOTHING_COMPARED = "nothing-compared"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEvidence(RowsCompared):
    """One topic and the proof of each of its partitions. The digests are SHA-256 over the digests and row counts of its partitions (see ``digest_of``)."""

    role: TopicRole
    partitions: tuple[PartitionProof, ...]

    @property
    def proven(self) -> bool:
        """True if each partition is proven: by its rows, or as empty on both sides."""
        return bool(self.partitions) and all(one.holds for one in self.partitions) and self.archived_digest == self.restored_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport(RestoreFacts):
    """The evidence of a restore, stored in the repository. Without a ``savepoint_id`` it was a rebuild from the input; its topics, if any, are inputs,
    globals and outputs from the savepoint in ``manifests``.
    """

    part: RestorePart = field(metadata=IN_EVIDENCE)
    format_version: Literal[7]
    restore_id: str
    # By savepoint, the hash of the stored manifest that was used, None if it was gone at the end. Each manifest has the hash of every file it names.
    manifests: dict[str, str | None]
    plan_hash: str
    requested_by: str
    reason: str
    started_at: int
    finished_at: int
    strategy: str
    offsets: int
    rows: int
    keys_compared: int
    topics: tuple[TopicEvidence, ...]
    # Planned partitions without a proof over all their records.
    missing: tuple[str, ...]
    # The one for an undo, None if there was no state to save.
    safety_savepoint: str | None
    # Topics whose retention is not put back yet, because restored records would expire. Every later savepoint tries again.
    still_held: tuple[str, ...]
    # The records that their own retention may delete from now on.
    expiring: tuple[str, ...]
    sizes: Sizes
    # The steps of the restore by name, None if it was interrupted.
    seconds: dict[str, float] | None
    # Answers of the running application, compared.
    query_checks: tuple[QueryCheck, ...]
    # What came of watching a new version.
    watched: Watched | None
    # Records of outputs that the state has not caused, None if none were found: the application writes their results again.
    outputs_behind: tuple[ResultsBehind, ...] | None = field(default=None, metadata=codec.LEFT_OUT)

    @property
    def verdict(self) -> Verdict:
        """The verdict. One difference or missing proof outweighs everything that is equal."""
        if self.missing or not all(topic.proven for topic in self.topics) or any(store.different for store in self.query_checks):
            return Verdict.DIFFERENT
        return Verdict.EQUAL if sum(topic.rows for topic in self.topics) else Verdict.NOTHING_COMPARED


def digest_of(partitions: Iterable[tuple[int, int, str]]) -> str:
    """SHA-256 over one line ``{partition} {rows} {digest}`` for each partition, in order."""
    lines = "".join(f"{partition} {rows} {digest}\n" for partition, rows, digest in sorted(partitions))
    return hashlib.sha256(lines.encode()).hexdigest()


def topic_evidence(plan: RestorePlan, proofs: Sequence[PartitionProof]) -> tuple[tuple[TopicEvidence, ...], tuple[str, ...]]:
    """One entry for each loaded topic, and the planned partitions without a proof over all their rows. A rebuild without an archive loads no topic:
    the topics that it creates are empty.
    """
    by_topic: dict[str, dict[int, PartitionProof]] = {}
    for one in proofs:
        by_topic.setdefault(one.topic, {})[one.partition] = one
    topics, missing = [], []
    for step in plan.create if plan.part.loads else ():
        found = by_topic.get(step.name, {})
        missing += [
            f"{step.name}-{part.partition}"
            for part in step.partitions
            if part.partition not in found or found[part.partition].rows != part.rows
        ]
        topics.append(_of_topic(step.name, step.role, tuple(found[number] for number in sorted(found))))
    return tuple(topics), tuple(missing)


def _of_topic(name: str, role: TopicRole, proofs: tuple[PartitionProof, ...]) -> TopicEvidence:
    keys = [one.keys_compared for one in proofs if one.keys_compared is not None]
    return TopicEvidence(
        topic=name,
        role=role,
        partitions=proofs,
        rows=sum(one.rows for one in proofs),
        archived_digest=digest_of((one.partition, one.rows, one.archived_digest) for one in proofs),
        restored_digest=digest_of((one.partition, one.rows, one.restored_digest) for one in proofs),
        keys_compared=sum(keys) if keys else None,
    )


def report_page(report: RestoreReport, sha256: str) -> Markdown:
    """The evidence for people: a self-contained page in markdown. ``sha256`` is that of the JSON it is made from."""
    by_key = md(", and {:,} keys one by one", report.keys_compared) if report.keys_compared else _EMPTY
    return joined(
        [
            md("# {} {} of {}", report.part.TITLE, code(report.restore_id), code(report.application_id)),
            _EMPTY,
            *report.part.headline(_VERDICTS[report.verdict], report),
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
            *_behind(report),
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


def _behind(report: RestoreReport) -> list[Markdown]:
    """Results that come twice, for readers that can skip the first ones."""
    if not report.outputs_behind:
        return []
    return [
        md("## Results behind the state"),
        _EMPTY,
        md(
            "These records of outputs were there before the restore, and the restored state has not caused them. Their input is processed again, so their "
            "results come again behind them. A reader that skips them sees each result once. {} in the same directory has every span of offsets.",
            code("outputs-behind.json"),
        ),
        _EMPTY,
        md("| output | offsets | first | last | |"),
        md("|---|---:|---:|---:|---|"),
        *(
            md(
                "| {} | {:,} | {} | {} | {} |",
                one.tp,
                one.offsets,
                one.first,
                one.last,
                "all of them" if one.exact else "there may be more",
            )
            for one in report.outputs_behind
        ),
        _EMPTY,
    ]


def _asked(report: RestoreReport) -> list[Markdown]:
    stores = {store_name(one.topic, report.application_id) for one in report.topics if one.role is TopicRole.CHANGELOG}
    asked = [one for one in report.query_checks if one.sampled]
    left = sorted((stores | {one.store for one in report.query_checks}) - {one.store for one in asked})
    if not stores and not report.query_checks:
        return []
    silent = [md("Not asked for any key: {}. Their records are proven above.", code(", ".join(left))), _EMPTY] if left else []
    if not asked:
        return [md("## Answers of the application to queries"), _EMPTY, *silent]
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
            for one in asked
        ),
        _EMPTY,
        *silent,
    ]


def _facts(report: RestoreReport) -> list[tuple[str, str]]:
    """Names and values. Text that is no Markdown is escaped where it is shown."""
    seconds = report.seconds or {}
    steps = ", ".join(f"{step} {span(value)}" for step, value in seconds.items()) or "in several attempts"
    return [
        ("savepoint", _savepoint(report)),
        *report.part.facts(),
        ("requested by", f"{report.requested_by}: {report.reason}" if report.reason else report.requested_by),
        ("began, ended", f"{moment(report.started_at)}, {moment(report.finished_at)}"),
        *([("steps", steps)] if report.part.TIMED else []),
        ("offsets set", md("{}, inputs by {}", report.offsets, code(report.strategy))),
        *report.part.more_facts(),
        ("state from before", report.part.state_before(report.safety_savepoint)),
        ("retention not put back yet", ", ".join(report.still_held) or "none"),
        *([("older than their retention", "; ".join(report.expiring))] if report.expiring else []),
    ]


def _savepoint(report: RestoreReport) -> str:
    if report.savepoint_id is None or report.captured_at is None:
        return report.part.NO_SAVEPOINT
    source = _EMPTY if report.source_application_id == report.application_id else md(" of {}", code(report.source_application_id))
    captured = moment(report.captured_at)
    return md("{}{}, captured {}, consistency {}", code(report.savepoint_id), source, captured, report.consistency)


def _row(topic: TopicEvidence) -> Markdown:
    keys = "-" if topic.keys_compared is None else f"{topic.keys_compared:,}"
    return md("| {} | {} | {} | {:,} | {} | {} |", topic.topic, topic.role, len(topic.partitions), topic.rows, keys, _proof(topic))


def _proof(topic: TopicEvidence) -> Markdown:
    """The number of partitions with each proof."""
    if not topic.proven:
        return md("**NO**")
    counts = Counter(one.proof for one in topic.partitions)
    return md("{}", ", ".join(f"{counts[proof]} by {_NAMES[proof]}" for proof in Proof if counts[proof]))
