"""The results of a word count (``named_counts``) in its outputs after a loss: each is there once, for readers that skip what a restore has listed."""

from __future__ import annotations

import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from streams_recovery.cli import runs
from streams_recovery.cli.context import Requester
from streams_recovery.cli.runner import Runner
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.outputs_behind import OutputsBehind
from streams_recovery.core.words import LATEST
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.named_counts import NamedCounts, Truth
from tests.support.applications.named_recovery import ONE_INSTANCE
from tests.support.applications.pair import Here
from tests.support.applications.small import asked


def by_command(counts: NamedCounts, place: Path, state: Path) -> dict[str, object]:
    """How one instance is run, as a section of the configuration. Its process is in ``place``, and the name of its output in a variable."""
    output = counts.outputs[0].topic
    own = " ".join('"$OUT"' if part == output else shlex.quote(part) for part in counts.command(state))
    verbs = {verb: [sys.executable, ONE_INSTANCE, str(place), verb, str(state)] for verb in ("status", "stop", "wipe")}
    verbs["start"] = [sys.executable, ONE_INSTANCE, str(place), "start", str(state), "sh", "-c", f"exec {own}"]
    return {"kind": "command", "command": {**verbs, "environment": {"OUT": output}}}


def brought_back(recovery: RecoveryContext, savepoint_id: str = LATEST) -> restore.RestoreReport:
    """The report of a restore that has started the application again."""
    runner = Runner(recovery=recovery, submitter=Here(recovery), say=print)
    requester = Requester(run_id="lost", requested_by="test")
    runs.restore_in_place(runner, asked(recovery, savepoint=savepoint_id, replace=True), requester, approve=lambda _: True)
    return restore.evidence(recovery)[0]


def skipped(listed: OutputsBehind | None) -> set[tuple[TopicPartition, int]]:
    """The offsets that are listed."""
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
