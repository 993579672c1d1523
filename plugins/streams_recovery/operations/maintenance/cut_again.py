"""Proving a cut by the names of transactions once more, by the logs of the cluster as far as they are still what they were."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.proof import NamedProof
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.words import first_names
from streams_recovery.kafka.application_logs import impatient_logs
from streams_recovery.kafka.named_transactions import NamedLogs
from streams_recovery.operations.context import RecoveryContext


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProven:
    """Logs whose batches between the two ends of the look have the ``proven`` names, and those that are ``gone`` or were cleaned since."""

    savepoint_id: str
    proven: tuple[TopicPartition, ...]
    gone: tuple[TopicPartition, ...]

    @property
    def text(self) -> str:
        """It in a sentence."""
        since = f"; {len(self.gone)} are not there any more as they were: {first_names(self.gone)}" if self.gone else ""
        return (
            f"cut of {self.savepoint_id}: {len(self.proven)} logs have the transactions that it names, and left out what it left out{since}"
        )


def prove_cut(recovery: RecoveryContext, savepoint_id: str) -> CutProven:
    """Read what lies between the beginning of the look and the end of the cut once more, and count it by names. Raises ``Damaged`` where a log has others,
    ``Refused`` for a savepoint whose cut is not by names, or of which no log can be compared.
    """
    manifest = recovery.savepoints.outline(recovery.savepoints.id_of(savepoint_id))
    names = manifest.proof.names
    if names is None:
        raise Refused(
            f"the cut of savepoint {manifest.savepoint_id} was not read by the names of transactions",
            next_step="nothing can be proven again; its proof is in the manifest",
            savepoint=manifest.savepoint_id,
        )
    answers = _compared(recovery, manifest, names)
    if wrong := {tp: why for tp, why in answers.items() if why}:
        raise Damaged(
            f"the logs are not what savepoint {manifest.savepoint_id} was taken of: "
            + "; ".join(f"{tp}: {why}" for tp, why in sorted(wrong.items())[:5]),
            next_step="find out who wrote to these topics or restored them, and take another savepoint",
            savepoint=manifest.savepoint_id,
        )
    proven = tuple(sorted(tp for tp, why in answers.items() if why is not None))
    if not proven:
        raise Refused(
            f"no log is there any more as it was when savepoint {manifest.savepoint_id} was taken, or nothing was written then",
            next_step="nothing can be proven again; its proof is in the manifest",
            savepoint=manifest.savepoint_id,
        )
    return CutProven(savepoint_id=manifest.savepoint_id, proven=proven, gone=tuple(sorted(answers.keys() - {*proven})))


def _compared(recovery: RecoveryContext, manifest: Manifest, names: NamedProof) -> dict[TopicPartition, str | None]:
    """What contradicts the proof, by partition in which anything lay between: see ``NamedProof.differs``."""
    ids = {topic.name: topic.topic_id for topic in manifest.topics}
    wanted = {tp: (log.start, log.end) for tp, log in names.logs.items() if log.start < log.end}
    here = manifest.cluster_id == recovery.cluster.cluster_id()
    described = recovery.cluster.describe_topics(sorted({tp.topic for tp in wanted})) if here else {}
    same = {tp: span for tp, span in wanted.items() if tp.topic in described and described[tp.topic].topic_id == ids[tp.topic]}
    ends = recovery.cluster.high_watermarks(tuple(same)) if same else {}
    cut_back = {tp: f"it ends at {ends[tp]}, before {end}" for tp, (_, end) in same.items() if ends[tp] < end}
    whole = {tp: span for tp, span in same.items() if tp not in cut_back}
    with (
        impatient_logs(recovery.application_id, recovery.connection, recovery.cluster, recovery.clock, recovery.loads) as logs,
        NamedLogs(recovery.connection, logs) as reader,
    ):
        batches = reader.batches(whole) if whole else {}
    return {tp: names.differs(tp, batches[tp]) if tp in batches else cut_back.get(tp) for tp in wanted}
