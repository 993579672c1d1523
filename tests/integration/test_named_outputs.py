"""Outputs after a loss under load: each result once, where the outputs were lost too and come back from the savepoint, and where they stayed, for a reader that
skips what the restore has listed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from streams_recovery.operations import preflight
from streams_recovery.operations.restore.outputs_behind import listed_behind
from tests.support.applications.named_counts import Truth, named_counts
from tests.support.applications.named_outputs import brought_back, by_command, not_once, results, skipped
from tests.support.applications.named_recovery import PATIENT, named_recovery, saved

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900), pytest.mark.deep]


@pytest.mark.parametrize("lost", [True, False], ids=["outputs lost", "outputs stay"])
def test_each_result_is_there_once_after_a_loss_under_load(bootstrap: str, tmp_path: Path, lost: bool) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader:
        counts.spread = True
        place, state = tmp_path / "instance", tmp_path / "state"
        output = counts.outputs[0].topic
        with named_recovery(
            {"bootstrap.servers": bootstrap},
            counts.id,
            tmp_path,
            backup=PATIENT,
            runs=by_command(counts, place, state),
            topics={"include": [output]},
        ) as recovery:
            with counts.feeding(800):
                recovery.application.start()
                counts.await_work(reader)
                saved(recovery)
                # One in whose outputs something lies between that is not of its state.
                for _ in range(40):
                    second = saved(recovery)
                    assert second.proof.names is not None
                    between = sum(second.proof.names.logs[tp].left_out for tp in counts.outputs)
                    if between:
                        break
                time.sleep(1)
                os.kill(int((place / "pid").read_text()), signal.SIGKILL)
            recovery.groups.wait_empty(counts.id, 60)
            gone = {tp.topic for tp in (*counts.changelogs, *counts.between)} | ({output} if lost else set())
            recovery.cluster.delete_topics(sorted(gone))
            warned = [one.text for one in preflight.before_restore(recovery, second, replacing=True) if one.kind == "outputs"]
            report = brought_back(recovery, second.savepoint_id)
            assert counts.await_end(reader), "it has not read all of its input again"
            recovery.application.stop(timeout=60)
        truth = Truth.of(counts, reader)
        listed = listed_behind(recovery, report.restore_id)
        skip = skipped(listed)
        sys.stdout.write(
            f"{'lost' if lost else 'stay'}: {between} records between those of the state, {len(skip)} offsets listed, {counts.fed:,} lines\n"
        )
        assert between > 0
        assert truth.wrong_state(reader.committed(), truth.logs) == []
        assert not_once(counts, truth, results(truth, counts.outputs, skip)) == []
        assert (listed is None, report.outputs_behind is None, warned == []) == (lost, lost, lost)
        if listed is not None:
            assert report.outputs_behind == tuple(one.facts for one in listed.outputs)
            assert all(one.exact for one in listed.outputs)
            assert not_once(counts, truth, results(truth, counts.outputs, ())) != [], "without skipping there are results twice"
