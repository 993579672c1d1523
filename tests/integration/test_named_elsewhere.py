"""A savepoint by names that has left out committed records between those of its state in a repartition topic: restored into another cluster, and as a clone."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest

from embedded.processes import Processes
from streams_recovery.cli import runs
from streams_recovery.cli.context import Requester
from streams_recovery.cli.runner import Runner
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.report import Verdict
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.named_counts import NamedCounts, Truth, named_counts, saved_logs
from tests.support.applications.named_outputs import by_command, not_once, results
from tests.support.applications.named_recovery import PATIENT, named_recovery
from tests.support.applications.small import asked

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(900)]
# Of so many savepoints at load one has such records.
SAVEPOINTS = 40


def runner(recovery: RecoveryContext, submitter: Submitter) -> Runner:
    return Runner(recovery=recovery, submitter=submitter, say=print)


def one_with_left_out(counts: NamedCounts, recovery: RecoveryContext, submitter: Submitter) -> Manifest:
    """A savepoint with a repartition topic in which committed records between those of the state are not of it."""
    for _ in range(SAVEPOINTS):
        request = SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)
        found = recovery.savepoints.read(runs.backup(runner(recovery, submitter), request).savepoint_id)
        if left_out(counts, found):
            return found
    pytest.fail(f"{SAVEPOINTS} savepoints have nothing between")


def left_out(counts: NamedCounts, found: Manifest) -> int:
    assert found.proof.names is not None
    return sum(found.proof.names.logs[tp].left_out for tp in counts.between)


def brought_back(recovery: RecoveryContext, submitter: Submitter, **wanted: object) -> None:
    requester = Requester(run_id=uuid.uuid4().hex, requested_by="test")
    report = runs.restore_in_place(runner(recovery, submitter), asked(recovery, **wanted), requester, approve=lambda _: True)
    assert report.verdict is Verdict.EQUAL


def check_goes_on(counts: NamedCounts, recovery: RecoveryContext) -> None:
    """All input is counted once, and each result is there once."""
    with counts.reader() as reader:
        assert counts.await_end(reader), "it has not read all of its input"
        recovery.application.stop(timeout=60)
        truth = Truth.of(counts, reader)
        assert truth.wrong_state(reader.committed(), truth.logs) == []
        assert not_once(counts, truth, results(truth, counts.outputs, ())) == []


def test_what_was_left_out_is_counted_once_in_another_cluster_and_in_a_clone(
    bootstrap: str, own_bootstrap: str, tmp_path: Path, in_session: Submitter
) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader, Processes(tmp_path / "others") as processes:
        # Transactions are open for long, and lie in one another.
        counts.spread = True
        kept = {
            "spark": {"always": True},
            "backup": PATIENT | {"survive_cluster_loss": True},
            "topics": {"include": [counts.outputs[0].topic]},
        }
        with named_recovery({"bootstrap.servers": bootstrap}, counts.id, tmp_path, **kept) as recovery:
            with counts.feeding(100):
                counts.start()
                counts.start()
                counts.await_work(reader)
                found = one_with_left_out(counts, recovery, in_session)
            logs = saved_logs(recovery, found)
        sys.stdout.write(f"{len(recovery.savepoints.ids())} savepoints; the last one leaves out {left_out(counts, found)} unread records\n")
        truth = Truth.of(counts, reader)
        assert truth.wrong_state(found.committed(), logs) == []
        between = {tp: [record for record in truth.logs[tp] if record[0] < found.proof.names.logs[tp].end] for tp in counts.between}
        assert truth.wrong_state(found.committed(), logs | between) != [], "with what was left out there would be too many"

        # Another cluster has nothing of it.
        elsewhere = NamedCounts(
            bootstrap=own_bootstrap, processes=processes, directory=tmp_path / "new", protocol="classic", spread=True, id=counts.id
        )
        elsewhere.directory.mkdir()
        repository = {
            "storage": {"path": str(tmp_path / "repository")},
            "runs": by_command(elsewhere, elsewhere.directory / "instance", elsewhere.directory / "state"),
        }
        with named_recovery({"bootstrap.servers": own_bootstrap}, counts.id, elsewhere.directory, **kept, **repository) as recovery:
            brought_back(recovery, in_session, savepoint=found.savepoint_id)
            with elsewhere.feeding(100), elsewhere.reader() as there:
                elsewhere.await_more(there)
            check_goes_on(elsewhere, recovery)

        clone = NamedCounts(
            bootstrap=bootstrap,
            processes=processes,
            directory=tmp_path / "clone",
            protocol="classic",
            spread=True,
            source=counts.inputs[0].topic,
        )
        clone.directory.mkdir()
        sections = {
            "topics": {"inputs": [clone.source], "outputs": [clone.outputs[0].topic], "include": [clone.outputs[0].topic]},
            "restore": {"topic_map": {counts.outputs[0].topic: clone.outputs[0].topic}},
            "spark": {"always": True},
            "clone": {"of": "named", "cut_over": {"environment": {"OUT": counts.outputs[0].topic}}},
            "runs": by_command(clone, clone.directory / "instance", clone.directory / "state"),
        }
        with named_recovery({"bootstrap.servers": bootstrap}, clone.id, tmp_path, name="next", **sections) as recovery:
            brought_back(recovery, in_session, source=counts.id, savepoint=found.savepoint_id)
            check_goes_on(clone, recovery)
