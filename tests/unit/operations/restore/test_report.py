"""Evidence that is checked by an auditor: a copy of a report and a public key, and nothing else."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.errors import ConfigInvalid, Damaged, Forged, NotFound, RecoveryError
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.restore.single_topics import SingleTopics
from streams_recovery.operations.restore.evidence import StateEvidence, keep_evidence, state_evidence
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import new_private_key
from tests.support.applications.unreachable import application
from tests.support.examples.restore_report import REPORT

PRIVATE, PUBLIC = new_private_key()
OTHER, OTHERS_PUBLIC = new_private_key()
LAYOUT = Layout(REPORT.application_id)


def copied(directory: Path, private: str | None = PRIVATE, public: str = PUBLIC, report: RestoreReport = REPORT) -> Path:
    """A copy of the evidence that a restore has kept. The repository itself is gone."""
    place = directory / "repository"
    seal = None if private is None else SealKeys(public=(public,), private=private)
    keep_evidence(Repository(StorageLocation(backend="filesystem", path=str(place)), seal=seal), LAYOUT, report)
    copy = directory / "report.json"
    shutil.copy(place / LAYOUT.report(REPORT.restore_id), copy)
    shutil.rmtree(place)
    return copy


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """The command on a machine without configuration, connections and network."""
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    for name in ("AIRFLOW_HOME", "STREAMS_RECOVERY_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)

    def unreachable(*_: object) -> None:
        raise AssertionError("an auditor has no access to anything")

    # The interpreter's own, so that no library can reach anything.
    monkeypatch.setattr(socket.socket, "connect", unreachable)

    def run(file: Path, *words: str) -> Result:
        return CliRunner().invoke(app, ["evidence", "--check", str(file), *words])

    return run


def single(topic: str, *, in_place: bool) -> TopicsPart:
    return TopicsPart(single=SingleTopics(names={topic: topic if in_place else "another"}, in_place=in_place))


def test_what_made_the_state_is_the_newest_restore_of_all_of_it_and_single_topics_since_then_in_place(tmp_path: Path) -> None:
    with application(tmp_path) as recovery:
        assert state_evidence(recovery) == StateEvidence(whole=None, alone=())
        kept = [
            replace(REPORT, application_id=recovery.application_id, restore_id=f"2026112{day}T020000Z-0123456789", part=part)
            for day, part in enumerate([single("a", in_place=True), REPORT.part, single("b", in_place=True), single("c", in_place=False)])
        ]
        for report in kept:
            keep_evidence(recovery.repository, recovery.layout, report)
        assert state_evidence(recovery) == StateEvidence(whole=kept[1], alone=(kept[2],))


def error_of(result: Result) -> RecoveryError:
    assert isinstance(result.exception, RecoveryError), result.output
    return result.exception


def test_good_evidence_is_shown_to_an_auditor_who_has_a_copy_and_a_public_key(audit: Callable[..., Result], tmp_path: Path) -> None:
    file = copied(tmp_path)
    shown = audit(file, "--public-key", PUBLIC)
    assert shown.exit_code == 0, shown.output
    assert REPORT.restore_id in shown.stdout
    found = json.loads(audit(file, "--public-key", OTHERS_PUBLIC, "--public-key", PUBLIC, "--json").stdout)
    assert (found["verdict"], found["restore_id"]) == ("equal", REPORT.restore_id)


@pytest.mark.parametrize(
    ("old", "new"), [(b'"rows":9', b'"rows":8'), (b'"requested_by":"admin"', b'"requested_by":"nobody"'), (b"dddd", b"eeee")]
)
def test_a_copy_that_was_changed_proves_nothing(audit: Callable[..., Result], tmp_path: Path, old: bytes, new: bytes) -> None:
    file = copied(tmp_path)
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new, 1))
    result = audit(file, "--public-key", PUBLIC)
    error = error_of(result)
    assert (type(error), error.exit_code) == (Forged, 6)
    assert error.reason == f"{file} proves nothing: its seal is that of another content, of another key or of another place in its log"
    assert "for a copy of its report.json as it is stored" in error.next_step
    assert REPORT.restore_id not in result.stdout


def test_evidence_of_another_restore_is_not_that_of_this_one(audit: Callable[..., Result], tmp_path: Path) -> None:
    file = copied(tmp_path)
    other = REPORT.restore_id[:-1] + "8"
    file.write_bytes(file.read_bytes().replace(REPORT.restore_id.encode(), other.encode()))
    assert type(error_of(audit(file, "--public-key", PUBLIC))) is Forged


@pytest.mark.parametrize(
    ("private", "public", "said"),
    [(None, "", "it has no seal"), (OTHER, OTHERS_PUBLIC, "which is not one of storage.seal.public_keys")],
    ids=["unsigned", "of another key"],
)
def test_evidence_without_the_seal_of_that_key_proves_nothing(
    audit: Callable[..., Result], tmp_path: Path, private: str | None, public: str, said: str
) -> None:
    error = error_of(audit(copied(tmp_path, private, public), "--public-key", PUBLIC))
    assert type(error) is Forged
    assert said in error.reason


def test_a_cut_copy_no_copy_and_no_key_are_said(audit: Callable[..., Result], tmp_path: Path) -> None:
    file = copied(tmp_path)
    assert type(error_of(audit(file))) is ConfigInvalid
    assert type(error_of(audit(file, "--public-key", "ed25519:short"))) is ConfigInvalid
    assert type(error_of(audit(tmp_path / "nowhere.json", "--public-key", PUBLIC))) is NotFound
    file.write_bytes(file.read_bytes()[:100])
    assert isinstance(error_of(audit(file, "--public-key", PUBLIC)), Damaged)


def test_sealed_evidence_that_is_not_equal_is_shown_and_fails(audit: Callable[..., Result], tmp_path: Path) -> None:
    different = replace(REPORT, missing=("orders-s-changelog 3",))
    result = audit(copied(tmp_path, report=different), "--public-key", PUBLIC)
    assert error_of(result).exit_code == 6
    assert REPORT.restore_id in result.stdout
