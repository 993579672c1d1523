"""The evidence of a restore in its repository: made of all that was compared or not at all, and found out when it was changed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import Altered, Damaged, NotFound
from streams_recovery.core.restore.estimate import STEPS, Timed, estimate
from streams_recovery.core.restore.proofs import Proof
from streams_recovery.core.waiting import RateLimits
from streams_recovery.operations import restore
from streams_recovery.operations.restore.evidence import earlier_restores, keep_evidence
from streams_recovery.operations.restore.open import entries, stored_plan
from streams_recovery.operations.restore.report import Checked, report_of
from tests.support.applications.restore_steps import loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked


def test_evidence_is_whole_or_there_is_none_and_a_changed_one_is_found_out(small: Small, tmp_path: Path) -> None:
    recovery, savepoint = small.recovery, publish(small)
    recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    ticket = opened(recovery, asked(recovery, savepoint=savepoint))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    found, planned, journal = verified(recovery, ticket), stored_plan(recovery, ticket), entries(recovery, ticket)
    with pytest.raises(NotFound, match="restores that have some: none"):
        restore.evidence(recovery)

    for less in (replace(found, partitions=found.partitions[1:]), replace(found, partitions=())):
        with pytest.raises(Damaged, match="has no evidence") as caught:
            report_of(recovery, ticket, planned, Checked(verified=less, query_checks=()), journal, ())
        assert caught.value.facts["restore"] == ticket.restore_id

    report = report_of(recovery, ticket, planned, Checked(verified=found, query_checks=()), journal, ())
    stored = (tmp_path / "repository" / recovery.layout.manifest(savepoint)).read_bytes()
    assert report.manifests == {savepoint: hashlib.sha256(stored).hexdigest()}
    assert (report.verdict, report.rows, report.keys_compared) == (restore.Verdict.EQUAL, 7, 0)
    assert [[(one.proof, one.rows) for one in topic.partitions] for topic in report.topics] == [[(Proof.ROWS, 3)], [(Proof.ROWS, 4)]]
    assert report.seconds is None, "it has not recovered"
    kept = keep_evidence(recovery.repository, recovery.layout, report)
    assert keep_evidence(recovery.repository, recovery.layout, replace(report, finished_at=1)) == kept, "what was written first counts"
    with pytest.raises(Altered, match="not the evidence") as caught:
        keep_evidence(recovery.repository, recovery.layout, replace(report, rows=1))
    assert caught.value.facts == {"key": recovery.layout.report(ticket.restore_id)}
    read, page = restore.evidence(recovery)
    assert (read, restore.evidence(recovery, ticket.restore_id)[0]) == (report, report)
    file = tmp_path / "repository" / recovery.layout.report(ticket.restore_id)
    assert hashlib.sha256(file.read_bytes()).hexdigest() in page

    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"rows":7', b'"rows":9'))
    with pytest.raises(Damaged, match="is not that of its report"):
        restore.evidence(recovery)
    file.write_bytes(whole)
    restore.abandon(recovery, ticket)

    timed = replace(report, seconds=dict.fromkeys(STEPS, 100.0), restore_id="20991121T000000Z-0123456789")
    keep_evidence(recovery.repository, recovery.layout, timed)
    assert earlier_restores(recovery) == [Timed(sizes=planned.sizes, seconds=dict.fromkeys(STEPS, 100.0))]
    free = RateLimits(records_per_second=None, bytes_per_second=None)
    assert estimate(planned.sizes, earlier_restores(recovery), free).total == pytest.approx(600)
