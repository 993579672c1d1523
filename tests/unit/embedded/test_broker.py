"""The broker's jars are the locked ones, and its cluster has an id that is never read as an option."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from embedded.broker import _cluster_id
from embedded.jars import KAFKA_VERSION, check
from streams_recovery.core.errors import Damaged


def test_a_cluster_id_is_never_read_as_an_option() -> None:
    ids = [_cluster_id() for _ in range(2_000)]
    assert all(found[0].isalpha() for found in ids)
    assert {len(base64.urlsafe_b64decode(found + "==")) for found in ids} == {16}
    assert len(set(ids)) == len(ids)


LOCK = Path(__file__).resolve().parents[3] / "embedded" / "jars.lock"


def test_lock_names_the_broker_and_the_library_of_one_version() -> None:
    names = {line.split("  ")[1] for line in LOCK.read_text().splitlines()}
    assert {f"kafka_2.13-{KAFKA_VERSION}.jar", f"kafka-streams-{KAFKA_VERSION}.jar", f"kafka-clients-{KAFKA_VERSION}.jar"} <= names


def test_a_jar_that_differs_is_refused_by_name(tmp_path: Path) -> None:
    for line in LOCK.read_text().splitlines():
        (tmp_path / line.split("  ")[1]).write_bytes(b"something else")
    with pytest.raises(Damaged, match=r"are not the locked ones: HdrHistogram"):
        check(tmp_path)


def test_an_empty_directory_is_not_the_locked_jars(tmp_path: Path) -> None:
    with pytest.raises(Damaged):
        check(tmp_path)
