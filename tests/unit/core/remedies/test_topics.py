"""What people are told about logs and records that cannot be saved."""

from __future__ import annotations

import pytest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.remedies.topics import examples, save_again, strange_header
from streams_recovery.kafka.range_consumer import unreadable_header


@pytest.mark.remedy("record-header")
def test_nobody_is_told_to_leave_a_changelog_out_or_to_delete_its_records() -> None:
    changelog = unreadable_header(TopicPartition("orders-totals-changelog", 0), 7).next_step
    assert "must not be deleted" in changelog
    assert "topics.exclude" not in changelog
    read = unreadable_header(TopicPartition("orders", 0), 7).next_step
    assert read == str(strange_header("orders", changelog=False))
    assert "topics.exclude" in read


def test_the_way_out_of_a_shorter_log_is_a_command_that_there_is() -> None:
    assert "`streams-recovery backup`" in str(save_again(TopicPartition("orders", 0)))


def test_texts_are_ends_of_sentences() -> None:
    assert [one for one in examples() if one.text.endswith(".") or (one.text and one.text[0].isupper())] == []
