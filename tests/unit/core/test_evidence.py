"""Evidence names what was compared, and passes for nothing less than all of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.asking import StoreAsked
from streams_recovery.core.estimate import Sizes
from streams_recovery.core.evidence import RestoreReport, TopicEvidence, Verdict, digest_of, topic_evidence
from streams_recovery.core.evidence_text import page
from streams_recovery.core.jobs import PartitionVerified, StoreVerified
from streams_recovery.core.model import Consistency, TopicRole
from streams_recovery.core.plan import PartitionLoad, TopicToCreate
from tests.unit.core.test_plan import PLAN


def compared(topic: str, partition: int, rows: int = 3, archived: str = "aa", loaded: str = "aa") -> PartitionVerified:
    return PartitionVerified(
        topic=topic, partition=partition, archived_rows=rows, loaded_rows=rows, archived_digest=archived, loaded_digest=loaded
    )


def store(topic: str, keys: int = 2, different: int = 0) -> StoreVerified:
    return StoreVerified(topic=topic, keys_compared=keys, keys_different=different, examples=())


def create(name: str, role: TopicRole, partitions: int) -> TopicToCreate:
    loads = tuple(PartitionLoad(partition=number, files=()) for number in range(partitions))
    return TopicToCreate(name=name, role=role, replication_factor=1, held_config={}, final_config={}, replaces=None, partitions=loads)


WANTED = replace(PLAN, create=(create("a-s-changelog", TopicRole.CHANGELOG, 2), create("a-k-repartition", TopicRole.REPARTITION, 1)))
WHOLE = [compared("a-s-changelog", 1, archived="bb", loaded="bb"), compared("a-k-repartition", 0), compared("a-s-changelog", 0)]
TOPICS, MISSING = topic_evidence(WANTED, WHOLE, [store("a-s-changelog")])
REPORT = RestoreReport(
    format_version=2,
    restore_id="20261121T020000Z-0123456789",
    application_id="orders",
    source_application_id="orders",
    savepoint_id="20261121T010000Z-0123456789",
    captured_at=1_700_000_000_000,
    consistency=Consistency.EXACT,
    manifests={"20261121T010000Z-0123456789": "c" * 64},
    plan_hash="d" * 64,
    requested_by="admin",
    reason="",
    started_at=1_700_000_100_000,
    finished_at=1_700_000_200_000,
    strategy="exact",
    offsets=3,
    rows=9,
    keys_compared=2,
    topics=TOPICS,
    missing=MISSING,
    safety_savepoint=None,
    still_held=(),
    sizes=Sizes(records=9, payload_bytes=90, partitions=3, replaced=0, to_catch_up=0),
    seconds={"load": 61.0},
    point=None,
    asked=(),
)


def test_a_topic_is_one_digest_over_its_partitions_in_their_order() -> None:
    assert [(topic.topic, topic.partitions, topic.rows, topic.keys_compared) for topic in TOPICS] == [
        ("a-s-changelog", 2, 6, 2),
        ("a-k-repartition", 1, 3, None),
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
def test_a_partition_that_was_not_compared_is_named_and_spoils_all(left_out: int) -> None:
    topics, missing = topic_evidence(WANTED, [one for number, one in enumerate(WHOLE) if number != left_out], [store("a-s-changelog")])
    assert missing == (f"{WHOLE[left_out].topic}-{WHOLE[left_out].partition}",)
    assert replace(REPORT, topics=topics, missing=missing).verdict is Verdict.DIFFERENT


def test_a_changelog_whose_keys_were_not_compared_spoils_all() -> None:
    topics, missing = topic_evidence(WANTED, WHOLE, [])
    assert missing == ("keys of a-s-changelog",)
    assert replace(REPORT, topics=topics, missing=missing).verdict is Verdict.DIFFERENT


@pytest.mark.parametrize(
    ("partitions", "stores"),
    [
        ([*WHOLE[1:], compared("a-s-changelog", 1, archived="bb", loaded="bx")], [store("a-s-changelog")]),
        ([*WHOLE[1:], replace(compared("a-s-changelog", 1), loaded_rows=2)], [store("a-s-changelog")]),
        (WHOLE, [store("a-s-changelog", different=1)]),
    ],
)
def test_one_difference_spoils_all(partitions: list[PartitionVerified], stores: list[StoreVerified]) -> None:
    topics, missing = topic_evidence(WANTED, partitions, stores)
    assert (missing, replace(REPORT, topics=topics).verdict) == ((), Verdict.DIFFERENT)


def test_nothing_compared_is_never_equal() -> None:
    nothing = [replace(one, archived_rows=0, loaded_rows=0) for one in WHOLE]
    topics, _ = topic_evidence(WANTED, nothing, [store("a-s-changelog", keys=0)])
    assert replace(REPORT, topics=topics, rows=0, keys_compared=0).verdict is Verdict.NOTHING_COMPARED
    assert replace(REPORT, keys_compared=0).verdict is Verdict.NOTHING_COMPARED, "changelogs with rows have keys"
    assert replace(REPORT, topics=(), rows=0, keys_compared=0).verdict is Verdict.NOTHING_COMPARED
    inputs = tuple(replace(topic, role=TopicRole.INPUT, keys_compared=None, keys_different=None) for topic in TOPICS)
    assert replace(REPORT, topics=inputs, keys_compared=0).verdict is Verdict.EQUAL, "inputs alone have no state"


def test_an_answer_that_is_another_one_spoils_all() -> None:
    asked = StoreAsked(store="s", sampled=3, equal=2, changed=1, unreadable=0, different=())
    fine = replace(REPORT, asked=(asked,))
    assert fine.verdict is Verdict.EQUAL
    assert "| s | 3 | 2 | 1 | 0 | 0 |" in page(fine, "e")
    assert replace(REPORT, asked=(replace(asked, different=("k",)),)).verdict is Verdict.DIFFERENT


def test_it_is_read_as_it_was_written() -> None:
    assert codec.loads(RestoreReport, codec.dumps(REPORT), where="report") == REPORT


def test_the_page_has_the_verdict_and_every_hash_and_stands_alone() -> None:
    text = page(REPORT, "e" * 64)
    assert "**Equal.**" in text
    for digest in ("c" * 64, "d" * 64, "e" * 64, *(topic.archived_digest for topic in TOPICS)):
        assert digest in text
    assert "load 1 min 1 s" in text
    assert "](" not in text, "no links"
    different: TopicEvidence = replace(TOPICS[0], keys_different=1)
    assert "**NOT EQUAL.**" in page(replace(REPORT, topics=(different,)), "e")
    assert "**NO**, 1 keys" in page(replace(REPORT, topics=(different,)), "e")
    assert "Not compared: x-1." in page(replace(REPORT, missing=("x-1",)), "e")
    rebuilt = replace(REPORT, topics=(), rows=0, keys_compared=0, savepoint_id=None, captured_at=None, consistency=None, manifests={})
    assert "**NOTHING WAS COMPARED.**" in page(rebuilt, "e")
    assert "built again from the input" in page(rebuilt, "e")


def test_what_people_typed_cannot_change_the_page() -> None:
    text = page(replace(REPORT, reason="x |\n| equal | **Equal.** <b>", requested_by="a`b"), "e")
    assert text.count("**Equal.**") == 1
    assert "<b>" not in text
    assert len(text.splitlines()) == len(page(replace(REPORT, reason="x"), "e").splitlines())
