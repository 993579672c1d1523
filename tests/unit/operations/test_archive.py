"""Cuts that were kept, read while an archiver removes the oldest."""

from __future__ import annotations

from itertools import islice

from streams_recovery.core.archive.cuts import ArchivedCut, KeptCut
from streams_recovery.operations.archive import archived_files, cut_log, kept_cuts
from tests.support.examples.savepoints import manifest_of
from tests.support.repository.golden import OpenGolden


def test_cuts_that_go_meanwhile_end_the_reading_of_them(golden: OpenGolden) -> None:
    recovery = golden("good")
    log = cut_log(recovery)
    for at in range(1, 41):
        cut = ArchivedCut(captured_at=at, proof=manifest_of().proof, topics={}, inputs=(), written=(), tails=())
        log.append(KeptCut(cluster_id="cluster", cut=cut))
    reading = kept_cuts(recovery)
    assert [one.cut.captured_at for one in islice(reading, 3)] == [40, 39, 38]
    log.prune(25)
    rest = [one.cut.captured_at for one in reading]
    assert rest == list(range(37, 37 - len(rest), -1))
    assert rest[-1] >= 16
    assert archived_files(recovery) == frozenset()
