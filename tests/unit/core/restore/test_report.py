"""Evidence names what was compared, and passes for nothing less than all of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.restore.outputs_behind import ResultsBehind
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.proofs import NO_ROWS, PartitionProof, Proof, QueryCheck
from streams_recovery.core.restore.report import RestoreReport, TopicEvidence, Verdict, digest_of, report_page, topic_evidence
from streams_recovery.core.restore.single_topics import SingleTopics
from tests.support.examples.restore_plan import PLAN, with_part
from tests.support.examples.restore_report import MISSING, REPORT, TOPICS, WANTED, WHOLE, create, proven


def empty(topic: str, partition: int) -> PartitionProof:
    return replace(proven(topic, partition, rows=0, archived=NO_ROWS, restored=NO_ROWS), proof=Proof.EMPTY)


def test_a_topic_is_one_digest_over_its_partitions_in_their_order() -> None:
    assert [(topic.topic, [one.partition for one in topic.partitions], topic.rows, topic.keys_compared) for topic in TOPICS] == [
        ("a-s-changelog", [0, 1], 6, 2),
        ("a-k-repartition", [0], 3, None),
    ]
    assert TOPICS[0].archived_digest == TOPICS[0].restored_digest == hashlib.sha256(b"0 3 aa\n1 3 bb\n").hexdigest()
    assert MISSING == ()
    assert REPORT.verdict is Verdict.EQUAL


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.text("abc", max_size=3)), unique_by=lambda one: one[0]), st.randoms())
def test_the_digest_depends_on_every_partition_and_not_on_their_order(parts: list[tuple[int, int, str]], random: st.random.Random) -> None:
    mixed = list(parts)
    random.shuffle(mixed)
    assert digest_of(mixed) == digest_of(parts)
    for number, (partition, rows, digest) in enumerate(parts):
        assert digest_of([*parts[:number], *parts[number + 1 :]]) != digest_of(parts)
        assert digest_of([*parts[:number], (partition, rows + 1, digest), *parts[number + 1 :]]) != digest_of(parts)
        assert digest_of([*parts[:number], (partition, rows, digest + "d"), *parts[number + 1 :]]) != digest_of(parts)


@pytest.mark.parametrize("left_out", range(3))
def test_a_partition_without_a_proof_is_named_and_spoils_all(left_out: int) -> None:
    topics, missing = topic_evidence(WANTED, [one for number, one in enumerate(WHOLE) if number != left_out])
    assert missing == (f"{WHOLE[left_out].topic}-{WHOLE[left_out].partition}",)
    assert replace(REPORT, topics=topics, missing=missing).verdict is Verdict.DIFFERENT


@pytest.mark.parametrize("less", [proven("a-s-changelog", 0, rows=2), proven("a-s-changelog", 0, rows=0), empty("a-s-changelog", 0)])
def test_a_proof_over_fewer_rows_than_were_planned_is_none(less: PartitionProof) -> None:
    _, missing = topic_evidence(WANTED, [*WHOLE[:2], less])
    assert missing == ("a-s-changelog-0",)


def test_one_difference_spoils_all() -> None:
    topics, missing = topic_evidence(WANTED, [*WHOLE[1:], proven("a-s-changelog", 1, archived="bb", restored="bx")])
    assert (missing, replace(REPORT, topics=topics).verdict) == ((), Verdict.DIFFERENT)


def test_a_partition_that_is_empty_on_both_sides_is_proven_and_one_of_no_rows_is_not() -> None:
    wanted = replace(PLAN, create=(create("a-s-changelog", TopicRole.CHANGELOG, 3, 0),))
    for proof, verdict in ((empty("a-s-changelog", 1), Verdict.EQUAL), (proven("a-s-changelog", 1, rows=0), Verdict.DIFFERENT)):
        topics, missing = topic_evidence(wanted, [proven("a-s-changelog", 0), proof])
        assert (missing, replace(REPORT, topics=topics).verdict) == ((), verdict)
    assert not replace(empty("t", 0), rows=1).holds
    topics, _ = topic_evidence(wanted, [proven("a-s-changelog", 0), empty("a-s-changelog", 1)])
    assert "1 by records, 1 by being empty" in report_page(replace(REPORT, topics=topics), "e")


def test_keys_need_not_be_compared_when_every_record_was() -> None:
    topics, missing = topic_evidence(WANTED, [replace(one, proof=Proof.ROWS, keys_compared=None) for one in WHOLE])
    report = replace(REPORT, topics=topics, keys_compared=0)
    assert (missing, report.verdict) == ((), Verdict.EQUAL)
    assert "9 records were compared in 2 topics." in report_page(report, "e")
    assert "9 records were compared in 2 topics, and 2 keys one by one." in report_page(REPORT, "e")


def test_nothing_compared_is_never_equal() -> None:
    wanted = replace(PLAN, create=(create("a-s-changelog", TopicRole.CHANGELOG, 0, 0),))
    topics, missing = topic_evidence(wanted, [empty("a-s-changelog", 0), empty("a-s-changelog", 1)])
    nothing = replace(REPORT, topics=topics, rows=0, keys_compared=0)
    assert (missing, nothing.verdict) == ((), Verdict.NOTHING_COMPARED)
    assert replace(REPORT, topics=(), rows=0, keys_compared=0).verdict is Verdict.NOTHING_COMPARED
    assert replace(REPORT, topics=(replace(TOPICS[0], partitions=()),)).verdict is Verdict.DIFFERENT


def test_what_a_rebuild_creates_needs_no_proof_unless_it_comes_from_an_archive() -> None:
    rebuilt = replace(WANTED, part=RebuildPart(), savepoint_id=None)
    assert topic_evidence(rebuilt, []) == ((), ())
    topics, missing = topic_evidence(with_part(rebuilt, inputs_from="20261121T000000Z-0000000001"), [])
    assert len(topics) == len(WANTED.create)
    assert missing, "nothing of it was compared"


def test_an_answer_that_is_another_one_spoils_all() -> None:
    asked = QueryCheck(store="s", sampled=3, equal=2, changed=1, unreadable=0, different=())
    fine = replace(REPORT, query_checks=(asked,))
    assert fine.verdict is Verdict.EQUAL
    assert "| s | 3 | 2 | 1 | 0 | 0 |" in report_page(fine, "e")
    assert replace(REPORT, query_checks=(replace(asked, different=("k",)),)).verdict is Verdict.DIFFERENT


def test_the_page_names_each_store_that_was_not_asked() -> None:
    asked = QueryCheck(store="s", sampled=3, equal=2, changed=1, unreadable=0, different=())
    silent = replace(asked, store="windows", sampled=0, equal=0, changed=0)
    changelogs = tuple(replace(REPORT.topics[0], topic=f"orders-{store}-changelog", role=TopicRole.CHANGELOG) for store in ("s", "more"))
    page = report_page(replace(REPORT, topics=changelogs, query_checks=(asked, silent)), "e")
    assert "Not asked for any key: `more, windows`." in page
    assert "| windows |" not in page
    nobody = report_page(replace(REPORT, topics=changelogs), "e")
    assert "Not asked for any key: `more, s`." in nobody
    assert "| store | keys |" not in nobody


def test_it_is_read_as_it_was_written() -> None:
    assert codec.loads(RestoreReport, codec.dumps(REPORT), where="report") == REPORT


def test_the_page_has_the_verdict_and_every_hash_and_stands_alone() -> None:
    text = report_page(REPORT, "e" * 64)
    assert "**Equal.**" in text
    for digest in ("c" * 64, "d" * 64, "e" * 64, *(topic.archived_digest for topic in TOPICS)):
        assert digest in text
    assert "load 1 min 1 s" in text
    assert "](" not in text, "no links"
    different: TopicEvidence = replace(TOPICS[0], restored_digest="f")
    assert "**NOT EQUAL.**" in report_page(replace(REPORT, topics=(different,)), "e")
    assert "| **NO** |" in report_page(replace(REPORT, topics=(different,)), "e")
    assert "| a-s-changelog | changelog | 2 | 6 | 2 | 1 by records, 1 by records and keys |" in text
    assert "Not proven: x-1." in report_page(replace(REPORT, missing=("x-1",)), "e")
    rebuilt = replace(REPORT, topics=(), rows=0, keys_compared=0, savepoint_id=None, captured_at=None, consistency=None, manifests={})
    assert "**NOTHING WAS COMPARED.**" in report_page(rebuilt, "e")
    assert "built again from the input" in report_page(rebuilt, "e")
    with_inputs = report_page(replace(REPORT, savepoint_id=None, captured_at=None, consistency=None), "e")
    assert "**Equal.**" in with_inputs
    assert "No state was restored: it was built again from the input" in with_inputs
    assert "No state was restored" not in text


def test_what_people_typed_cannot_change_the_page() -> None:
    text = report_page(replace(REPORT, reason="x |\n| equal | **Equal.** <b>", requested_by="a`b"), "e")
    assert text.count("**Equal.**") == 1
    assert "<b>" not in text
    assert len(text.splitlines()) == len(report_page(replace(REPORT, reason="x"), "e").splitlines())


def test_single_topics_are_named_and_nothing_is_said_of_a_state() -> None:
    single = SingleTopics(
        names={"copy": "orders"}, in_place=False, partitions=(2,), as_of=AsOf(moment=1_700_000_000_000, by=CutBy.POSITION)
    )
    page = report_page(replace(REPORT, part=TopicsPart(single=single)), "0" * 64)
    assert "| single topics | orders as copy, partitions 2 only |" in page
    assert "| as of | 2023-11-14 22:13:20 UTC by position |" in page
    assert "| state from before | it stayed as it was |" in page
    assert "| steps |" not in page
    assert "single topics" not in report_page(REPORT, "0" * 64)


def test_results_that_come_twice_are_told_by_their_offsets() -> None:
    assert "Results behind the state" not in report_page(REPORT, "0" * 64)
    behind = ResultsBehind(tp=TopicPartition("out", 1), exact=True, offsets=1_200, first=7, last=1_900)
    found = replace(REPORT, outputs_behind=(behind, replace(behind, tp=TopicPartition("out", 2), exact=False)))
    page = report_page(found, "0" * 64)
    assert "| out-1 | 1,200 | 7 | 1900 | all of them |" in page
    assert "| out-2 | 1,200 | 7 | 1900 | there may be more |" in page
    assert codec.loads(RestoreReport, codec.dumps(found), where="report") == found
    assert "outputs_behind" not in codec.encode(REPORT), "older reports stay readable"
