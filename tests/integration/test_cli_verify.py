"""`verify` as scripts meet it: each kind of damage ends the process with a code of its own, and JSON names everything that was found."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.ports import free_ports
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.retention import Pin
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.project import GOLDEN
from tests.support.repository.golden import FIRST, SECOND
from tests.support.repository.verify_command import Outcome, verify

THIRD = "20261121T020000Z-0000000003"
LAYOUT = Layout("golden")


def third(root: Path) -> Path:
    """A savepoint published by this release, so with its record."""
    repository = Repository(StorageLocation(backend="filesystem", path=str(root)))
    store = SavepointStore(repository, LAYOUT)
    return root / store.publish(replace(store.read(SECOND), savepoint_id=THIRD, parent_id=SECOND))


def lose(root: Path) -> None:
    third(root).unlink()


def mark(root: Path, *, count: int = 3) -> None:
    log = AppendLog(Repository(StorageLocation(backend="filesystem", path=str(root))), LAYOUT.pins, Pin)
    for number in range(count):
        log.append(Pin(savepoint_id=FIRST, keep=True, at=number, requested_by="me", reason=""))


def hole(prefix: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        for number in (1, 3):
            path = root / f"{prefix}{number:012}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_entry(prefix))

    return damage


def _entry(prefix: str) -> bytes:
    lock = {
        "kind": "release",
        "owner": "o",
        "purpose": "p",
        "acquired": 1,
        "at": 1,
        "expires_at": 1,
        "took_over_from": None,
        "process": None,
    }
    hold = {"kind": "released", "purpose": "copy", "run": "r", "at": 1, "topics": [], "clear": True}
    keep = {"savepoint_id": FIRST, "keep": False, "at": 1, "requested_by": "me", "reason": ""}
    return json.dumps({LAYOUT.locks: lock, LAYOUT.holds: hold, LAYOUT.pins: keep}[prefix]).encode()


def unreadable(root: Path) -> None:
    """A file that even root cannot open."""
    path = next((root / "golden" / "segments" / "golden-totals-changelog" / "1").iterdir())
    path.unlink()
    path.symlink_to(path.name)


def forget_marked(root: Path) -> None:
    mark(root)
    (root / LAYOUT.manifest(FIRST)).unlink()


def several(root: Path) -> None:
    """One of nearly everything."""
    unreadable(root)
    hole(LAYOUT.holds)(root)
    lose(root)


# Golden repository, what is done to it besides, arguments, exit code, causes.
CASES: dict[str, tuple[str, Callable[[Path], None] | None, list[str], int, list[str]]] = {
    "good": ("good", None, [], 0, []),
    "good, one": ("good", None, [SECOND], 0, []),
    "compacted": ("compacted", None, [], 0, []),
    "merged": ("merged", None, [], 0, []),
    "named": ("named", None, [], 0, []),
    "a whole one beside a damaged one": ("torn-manifest", None, [FIRST], 0, []),
    "missing segment": ("missing-segment", None, [], 26, ["missing-file"]),
    "truncated segment": ("truncated-segment", None, [], 25, ["altered-file"]),
    "overlapping ranges": ("overlapping-ranges", None, [], 27, ["damaged-manifest"]),
    "missing range": ("missing-range", None, [], 27, ["damaged-manifest"]),
    "path escape": ("path-escape", None, [], 27, ["damaged-manifest"]),
    "torn manifest": ("torn-manifest", None, [], 27, ["damaged-manifest"]),
    "torn manifest, only it": ("torn-manifest", None, [SECOND], 27, ["damaged-manifest", "nothing-checked"]),
    "no JSON": ("manifest-that-is-no-json", None, [], 27, ["damaged-manifest"]),
    "future format": ("future-format", None, [], 24, ["unknown-format"]),
    "lost manifest": ("good", lose, [], 28, ["lost-manifest"]),
    "lost manifest that was marked": ("good", forget_marked, [], 28, ["lost-manifest"]),
    "hole in the locks": ("good", hole(LAYOUT.locks), [], 23, ["damaged-record"]),
    "hole in the holds": ("good", hole(LAYOUT.holds), [], 23, ["damaged-record"]),
    "hole in the pins": ("good", hole(LAYOUT.pins), [], 23, ["damaged-record"]),
    "unreadable segment": ("good", unreadable, [], 22, ["not-read"]),
    "several": ("truncated-segment", several, [], 28, ["lost-manifest", "altered-file", "damaged-record", "not-read"]),
}
# A process each: the others of its kind are found by the same code.
EACH_TIME = ("good", "missing segment", "truncated segment", "torn manifest", "unreadable segment", "several")


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """The outcome of a case, a process for each that is asked for."""

    @functools.cache
    def run(name: str) -> Outcome:
        golden, change, arguments, _, _ = CASES[name]
        directory = tmp_path_factory.mktemp("verify")
        shutil.copytree(GOLDEN / golden, directory / "repository")
        if change:
            change(directory / "repository")
        return verify(directory, f"{{backend: filesystem, path: {directory / 'repository'}}}", *arguments, "--json")

    return run


@pytest.mark.deep
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in EACH_TIME else pytest.mark.deep) for name in CASES])
def test_the_worst_cause_gives_the_exit_code_and_json_lists_all(outcome_of: Callable[[str], Outcome], name: str) -> None:
    *_, code, causes = CASES[name]
    outcome = outcome_of(name)
    assert outcome.code == code, outcome
    report = outcome.report
    assert (report["good"], report["exit_code"], report["causes"]) == (code == 0, code, causes)
    assert {finding["cause"] for finding in report["findings"]} == {cause for cause in causes if cause != "nothing-checked"}
    assert report["savepoints"] > 0 or "nothing-checked" in causes
    assert "Traceback" not in outcome.err
    assert ("Next: " in outcome.err) == (code != 0)


def test_the_others_are_checked_when_one_file_cannot_be_read(outcome_of: Callable[[str], Outcome]) -> None:
    report = outcome_of("unreadable segment").report
    assert (report["savepoints"], report["files"]) == (2, 3)
    (finding,) = report["findings"]
    assert (finding["topic"], finding["partition"], finding["start"], finding["end"]) == ("golden-totals-changelog", 1, 3, 9)
    assert "symbolic links" in finding["problem"]


def test_people_read_the_same_verdict(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "missing-segment", tmp_path / "repository")
    outcome = verify(tmp_path, f"{{backend: filesystem, path: {tmp_path / 'repository'}}}")
    assert outcome.code == 26
    assert (
        "NOT GOOD: 2 savepoints with those taken before restores, 0 entries of logs, 3 files, 0 of them read with 0 rows, 1 findings"
        in outcome.out
    )
    assert f"missing-file: golden/segments/golden-totals-changelog/0/{40:020}-{55:020}-golden.parquet" in outcome.err
    assert f"needed by {SECOND}" in outcome.err


@pytest.mark.deep
def test_a_repository_without_manifests_is_nothing_to_check(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "no-manifest", tmp_path / "repository")
    outcome = verify(tmp_path, f"{{backend: filesystem, path: {tmp_path / 'repository'}}}", "--json")
    assert (outcome.code, outcome.out) == (4, "")
    assert "4 segments that no manifest names" in outcome.err


@pytest.mark.deep
def test_a_store_that_does_not_answer_has_a_code_of_its_own(tmp_path: Path) -> None:
    storage = f"{{backend: s3, bucket: b, endpoint: 'http://127.0.0.1:{free_ports(1)[0]}', connection: store, path_style: true, allow_http: true}}"
    keys = {"AIRFLOW_CONN_STORE": json.dumps({"conn_type": "aws", "login": "key", "password": "canary-secret"})}
    outcome = verify(tmp_path, storage, "--json", connections=keys)
    assert outcome.code == 20, outcome
    assert outcome.report == {"good": False, "exit_code": 20, "causes": ["repository-unreachable"]}
    assert "RepositoryUnavailable" in outcome.err
    assert "canary-secret" not in outcome.err
