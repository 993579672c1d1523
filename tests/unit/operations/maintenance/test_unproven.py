"""Expiry keeps what it cannot judge: by the real command line, on a repository whose seals were switched on, or whose key was taken back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.archive.log import ArchivedLog, ArchiveEntry, ArchiveEvent
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.operations.context import open_context, wall_clock
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.run_artifacts import RunArtifacts
from tests.support.examples.restore_plan import FILE, PLAN
from tests.support.repository.state_repository import FIRST, MINIMAL, SECOND, environment, fill

Run = Callable[..., Result]
LAYOUT = Layout("shop")
RETENTION = {
    "keep_last": 1,
    "keep_hourly": 0,
    "keep_daily": 0,
    "keep_weekly": 0,
    "keep_monthly": 0,
    "minimum": 1,
    "grace_days": 7,
    "apply": True,
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)
    configure(tmp_path, retention=RETENTION)
    return lambda *words: CliRunner().invoke(app, [*words, "--configs", str(tmp_path)], env=environment() | {"COLUMNS": "300"})


def configure(directory: Path, *, retention: object = None, seal: object = None) -> None:
    file = directory / "shop.yaml"
    written = yaml.safe_load(file.read_text())
    if retention is not None:
        written["retention"] = retention
    if seal is not None:
        written["storage"]["seal"] = seal
    file.write_text(json.dumps(written))


def new_key(directory: Path, name: str) -> str:
    """A new pair of keys, the private one in the file of this name. Returns the public one."""
    made = CliRunner().invoke(app, ["seal-key", str(directory / name)])
    assert made.exit_code == 0, made.output
    return made.stdout.strip()


def stored(directory: Path) -> set[str]:
    """All that expiry may remove, but the logs that it writes to itself."""
    root = directory / "repository"
    keys = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {key for key in keys if key.split("/")[1] not in ("locks", "status")}


def age(directory: Path, days: int = 90) -> None:
    for path in (directory / "repository").rglob("*"):
        os.utime(path, (time.time() - days * 86_400,) * 2)


def expire(run: Run) -> Result:
    planned = json.loads(run("expire", "shop", "--plan", "--json").stdout)
    return run("expire", "shop", "--approve", planned["approve"])


def repository(directory: Path) -> Repository:
    """The repository as those have it who know no keys."""
    return Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")))


@pytest.mark.fault("F76")
def test_seals_are_switched_on_and_an_expiry_before_the_adoption_takes_nothing(run: Run, tmp_path: Path) -> None:
    assert run("savepoints", "keep", "shop", FIRST, "--reason", "the audit").exit_code == 0
    configure(tmp_path, seal={"public_keys": [new_key(tmp_path, "seal.key")], "key_file": str(tmp_path / "seal.key")})
    age(tmp_path)
    before = stored(tmp_path)
    done = expire(run)
    assert stored(tmp_path) == before
    assert done.exit_code == 8, done.output
    assert "0 savepoints expired, 0 files removed" in done.stdout
    assert "records are not believed, and may be true: all that they name stays. Adopt them with `streams-recovery seal`" in done.stderr
    assert f"{LAYOUT.manifest(FIRST)}`: it has no seal" in run("expire", "shop", "--plan").stdout
    # So does a run of the schedule.
    assert run("expire", "shop", "--as-configured").exit_code == 8
    assert stored(tmp_path) == before
    # Adopted, they are judged as they were before: the rules take what they took, and the pin keeps.
    approve = json.loads(run("seal", "shop", "--plan", "--json").stdout)["approve"]
    assert run("seal", "shop", "--approve", approve, "--reason", "mine").exit_code == 0
    done = expire(run)
    assert done.exit_code == 0, done.output
    assert FIRST in {one["savepoint_id"] for one in json.loads(run("savepoints", "list", "shop", "--json").stdout)}


@pytest.mark.fault("F77")
@pytest.mark.parametrize("withdrawn", [True, False], ids=["as the documentation says", "and only removed"])
def test_a_key_is_taken_back_and_an_expiry_takes_nothing_that_it_sealed(run: Run, tmp_path: Path, withdrawn: bool) -> None:
    old, new = new_key(tmp_path, "old.key"), new_key(tmp_path, "new.key")
    configure(tmp_path, seal={"public_keys": [old], "key_file": str(tmp_path / "old.key")})
    approve = json.loads(run("seal", "shop", "--plan", "--json").stdout)["approve"]
    assert run("seal", "shop", "--approve", approve, "--reason", "mine").exit_code == 0
    assert run("savepoints", "keep", "shop", FIRST, "--reason", "the audit").exit_code == 0
    assert expire(run).exit_code == 0
    configure(tmp_path, seal={"public_keys": [old, new], "key_file": str(tmp_path / "new.key")})
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        # A good savepoint of the new key does not make the others go, and the pin of the old one keeps another.
        for savepoint_id in (FIRST, SECOND):
            manifest = recovery.savepoints.read(savepoint_id)
            recovery.repository.delete([LAYOUT.manifest(savepoint_id), LAYOUT.published(savepoint_id), LAYOUT.detail(savepoint_id)])
            recovery.savepoints.publish(manifest)
    taken_back = {"withdrawn_keys": [old]} if withdrawn else {}
    configure(tmp_path, seal={"public_keys": [new], "key_file": str(tmp_path / "new.key"), **taken_back})
    age(tmp_path)
    before = stored(tmp_path)
    done = expire(run)
    assert done.exit_code == 8, done.output
    assert stored(tmp_path) == before
    assert f"| {FIRST} | 2026-11-21 00:00:00 UTC | no | stays: pinned |" in run("expire", "shop", "--plan").stdout
    if not withdrawn:
        # Nobody can tell whose they were.
        configure(tmp_path, seal={"public_keys": [new], "key_file": str(tmp_path / "new.key"), "withdrawn_keys": [old]})
    # Whoever has looked adopts what is theirs, and everything counts again.
    planned = json.loads(run("seal", "shop", "--plan", "--json").stdout)
    assert {LAYOUT.manifest(MINIMAL), f"{LAYOUT.pins}{1:012}.json"} <= planned["records"].keys()
    assert run("seal", "shop", "--approve", planned["approve"], "--reason", "mine").exit_code == 0
    assert expire(run).exit_code == 0
    assert LAYOUT.manifest(FIRST) in stored(tmp_path)


@pytest.fixture
def adopted(run: Run, tmp_path: Path) -> Run:
    """A sealed repository: all that it has was adopted."""
    configure(tmp_path, seal={"public_keys": [new_key(tmp_path, "seal.key")], "key_file": str(tmp_path / "seal.key")})
    approve = json.loads(run("seal", "shop", "--plan", "--json").stdout)["approve"]
    assert run("seal", "shop", "--approve", approve, "--reason", "mine").exit_code == 0
    return run


def leftover(directory: Path) -> tuple[TopicPartition, str]:
    """A file that no savepoint needs, and the log that it is of."""
    plain = repository(directory)
    source = next(iter(plain.keys(LAYOUT.segments)))
    _, _, topic, partition, _ = source.split("/")
    tp = TopicPartition(topic, int(partition))
    key = LAYOUT.segment(tp, 1_000, 1_005, "later")
    plain.create(key, plain.get(source))
    return tp, key


@pytest.mark.fault("F76")
@pytest.mark.parametrize("named", [True, False])
def test_a_file_that_only_an_entry_of_the_archive_without_a_seal_names_stays(adopted: Run, tmp_path: Path, named: bool) -> None:
    tp, key = leftover(tmp_path)
    if named:
        stored_file = replace(FILE, key=key, first_offset=1_000, last_offset=1_004)
        log = ArchivedLog(
            tp=tp, topic_id="id", start=1_000, end=1_005, leader_epoch=0, ranges=(CopiedRange(start=1_000, end=1_005, file=stored_file),)
        )
        entry = ArchiveEntry(event=ArchiveEvent.JOINED, run="r", at=1, cluster_id="c", logs=(log,))
        AppendLog(repository(tmp_path), LAYOUT.archive, ArchiveEntry).append(entry)
    age(tmp_path)
    done = expire(adopted)
    assert (done.exit_code, key in stored(tmp_path)) == ((8, True) if named else (0, False)), done.output


@pytest.mark.fault("F98")
@pytest.mark.parametrize(("days", "stays"), [(2, True), (4, False)])
def test_a_file_that_an_opened_restore_uses_stays_when_the_archive_has_it_no_more(run: Run, tmp_path: Path, days: int, stays: bool) -> None:
    tp, key = leftover(tmp_path)
    at = wall_clock() - days * 86_400_000
    piece = CopiedRange(start=1_000, end=1_005, file=replace(FILE, key=key, first_offset=1_000, last_offset=1_004))
    log = ArchivedLog(tp=tp, topic_id="id", start=1_000, end=1_005, leader_epoch=0, ranges=(piece,))
    archive = AppendLog(repository(tmp_path), LAYOUT.archive, ArchiveEntry)
    said = ((ArchiveEvent.JOINED, at - 9, (log,)), (ArchiveEvent.KEPT, at, ()), (ArchiveEvent.JOINED, at + 9, ()))
    for event, moment, logs in said:
        archive.append(ArchiveEntry(event=event, run="restore 1", at=moment, cluster_id="c", logs=logs))
    age(tmp_path)
    done = expire(run)
    assert (done.exit_code, key in stored(tmp_path)) == (0, stays), done.output


STRANGE = "20261121T090000Z-0000000009"


@pytest.mark.fault("F76")
@pytest.mark.parametrize(
    "key", [LAYOUT.manifest(STRANGE), LAYOUT.safety.manifest(STRANGE), LAYOUT.retired(STRANGE, 1), f"{LAYOUT.archive}{1:012}.json"]
)
def test_a_record_without_a_seal_that_cannot_be_read_might_name_any_file(adopted: Run, tmp_path: Path, key: str) -> None:
    _, file = leftover(tmp_path)
    repository(tmp_path).create(key, b"nothing")
    age(tmp_path)
    done = expire(adopted)
    assert done.exit_code == 8, done.output
    assert f"no file may go while these cannot be read: {key}" in done.stderr
    assert {file, key} <= stored(tmp_path)
    repository(tmp_path).delete([key])
    assert expire(adopted).exit_code == 0
    assert file not in stored(tmp_path)


@pytest.mark.fault("F76")
def test_a_record_that_a_savepoint_was_published_keeps_all_files_until_somebody_knows_what_became_of_it(
    adopted: Run, tmp_path: Path
) -> None:
    _, file = leftover(tmp_path)
    plain = repository(tmp_path)
    plain.create(LAYOUT.published(STRANGE), plain.get(LAYOUT.published(FIRST)))
    age(tmp_path)
    assert expire(adopted).exit_code == 8
    assert file in stored(tmp_path)


@pytest.mark.fault("F76")
@pytest.mark.parametrize(
    ("unproven", "proven", "planned", "stays"),
    [
        ((Phase.OPENED, Phase.CREATED), (), True, True),
        ((Phase.OPENED, Phase.CREATED, Phase.CLOSED), (), True, True),
        ((Phase.OPENED, Phase.CREATED), (Phase.CLOSED,), True, False),
        ((Phase.OPENED, Phase.CREATED, Phase.CLOSED), (), False, False),
    ],
)
def test_a_restore_that_nobody_proves_keeps_its_savepoint_until_its_end_is_proven(
    adopted: Run, tmp_path: Path, unproven: tuple[Phase, ...], proven: tuple[Phase, ...], planned: bool, stays: bool
) -> None:
    restore = "20261121T040000Z-00000000aa"
    journal = AppendLog(repository(tmp_path), LAYOUT.journal(restore), JournalEntry)
    for phase in unproven:
        journal.append(JournalEntry(phase=phase, at=1, created=()))
    if planned:
        wanted = replace(PLAN, application_id="shop", source_application_id="shop", savepoint_id=FIRST, create=())
        RunArtifacts(repository(tmp_path), LAYOUT).write_once(restore, "restore-plan", wanted)
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        for phase in proven:
            AppendLog(recovery.repository, LAYOUT.journal(restore), JournalEntry).append(JournalEntry(phase=phase, at=2, created=()))
    done = expire(adopted)
    assert (done.exit_code, LAYOUT.manifest(FIRST) in stored(tmp_path)) == ((8, True) if stays else (0, False)), done.output


@pytest.mark.fault("F79")
def test_a_restore_of_another_application_that_nobody_proves_keeps_the_savepoint_that_it_reads(adopted: Run, tmp_path: Path) -> None:
    restore, other = "20261121T040000Z-00000000aa", Layout("shop-next")
    plain = repository(tmp_path)
    for phase in (Phase.OPENED, Phase.CREATED):
        AppendLog(plain, other.journal(restore), JournalEntry).append(JournalEntry(phase=phase, at=1, created=()))
    wanted = replace(PLAN, application_id="shop-next", source_application_id="shop", savepoint_id=FIRST, create=())
    RunArtifacts(plain, other).write_once(restore, "restore-plan", wanted)
    done = expire(adopted)
    assert (done.exit_code, LAYOUT.manifest(FIRST) in stored(tmp_path)) == (8, True), done.output


@pytest.mark.fault("F76")
def test_a_lock_that_somebody_holds_without_a_seal_is_not_tidied_away(run: Run, tmp_path: Path) -> None:
    configure(tmp_path, seal={"public_keys": [new_key(tmp_path, "seal.key")], "key_file": str(tmp_path / "seal.key")})
    held = ApplicationLock(repository(tmp_path), LAYOUT, wall_clock).acquire("old", lease_seconds=600, purpose="a savepoint")
    assert expire(run).exit_code == 8
    assert held is not None
    assert f"{LAYOUT.locks}{1:012}.json" in set(repository(tmp_path).keys(LAYOUT.locks))
