"""Outputs after a loss under load: each result once, where the outputs were lost too and come back from the savepoint, and where they stayed, for a reader that
skips what the restore has listed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.context import Requester
from streams_recovery.cli.runner import Runner
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.outputs_behind import OutputsBehind
from streams_recovery.operations import preflight, restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.outputs_behind import listed_behind
from tests.support.applications.named_counts import NamedCounts, Truth, named_counts
from tests.support.applications.named_recovery import ONE_INSTANCE, PATIENT, named_recovery, saved
from tests.support.applications.pair import Here
from tests.support.applications.small import asked

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900), pytest.mark.deep]


def brought_back(recovery: RecoveryContext, savepoint_id: str) -> restore.RestoreReport:
    runner = Runner(recovery=recovery, submitter=Here(recovery), say=print)
    requester = Requester(run_id="lost", requested_by="test")
    runs.restore_in_place(runner, asked(recovery, savepoint=savepoint_id, replace=True), requester, approve=lambda _: True)
    return restore.evidence(recovery)[0]


def skipped(listed: OutputsBehind | None) -> set[tuple[TopicPartition, int]]:
    outputs = () if listed is None else listed.outputs
    return {(one.tp, offset) for one in outputs for span in one.spans for offset in range(span.first, span.last + 1)}


def results(truth: Truth, outputs: Iterable[TopicPartition], skip: Collection[tuple[TopicPartition, int]]) -> dict[bytes, list[int]]:
    """The counts of each word in its output, in order, without records that are skipped."""
    found: dict[bytes, list[int]] = defaultdict(list)
    for tp in outputs:
        for offset, key, value in truth.logs[tp]:
            if (tp, offset) not in skip:
                found[key].append(int.from_bytes(value, "big"))
    return {word: sorted(several) for word, several in found.items()}


def not_once(counts: NamedCounts, truth: Truth, found: dict[bytes, list[int]]) -> list[str]:
    """Words of which the results are not 1, 2, 3, and so on up to how often they came in."""
    came = Counter(word for tp in counts.inputs for _, _, line in truth.logs[tp] for word in line.split(b" "))
    return [
        f"{word!r}: {found.get(word, [])[-5:]} of {number}" for word, number in came.items() if found.get(word) != [*range(1, number + 1)]
    ]


@pytest.mark.parametrize("lost", [True, False], ids=["outputs lost", "outputs stay"])
def test_each_result_is_there_once_after_a_loss_under_load(bootstrap: str, tmp_path: Path, lost: bool) -> None:
    with named_counts(bootstrap, tmp_path, "classic") as counts, counts.reader() as reader:
        counts.spread = True
        place, state = tmp_path / "instance", tmp_path / "state"
        verbs = {verb: [sys.executable, ONE_INSTANCE, str(place), verb, str(state)] for verb in ("status", "stop", "wipe")}
        verbs["start"] = [sys.executable, ONE_INSTANCE, str(place), "start", str(state), *counts.command(state)]
        output = counts.outputs[0].topic
        with named_recovery(
            {"bootstrap.servers": bootstrap},
            counts.id,
            tmp_path,
            backup=PATIENT,
            runs={"kind": "command", "command": verbs},
            topics={"include": [output]},
        ) as recovery:
            with counts.feeding(200):
                recovery.application.start()
                counts.await_work(reader)
                saved(recovery)
                # One in whose outputs something lies between that is not of its state.
                for _ in range(12):
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
