"""What the commands that look after a repository print as JSON: stdout has nothing else."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import BrokerUnavailable, ConfigInvalid, Damaged, LockHeld, Refused, RepositoryUnavailable
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.retention import Announcement, StoredFile
from streams_recovery.operations import maintenance, quiesce_record, unfinished
from streams_recovery.operations.archive import archive_lock
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.unfinished import pin
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from tests.support.repository.state_repository import FIRST, environment, fill

RESTORE = "20261121T020000Z-0123456789"
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)

    def run(*words: str, as_json: bool = True) -> Result:
        return CliRunner().invoke(
            app, [*words, *(["--json"] if as_json else []), "--configs", str(tmp_path)], env=environment() | {"COLUMNS": "300"}
        )

    return run


@pytest.fixture
def shop(run: Run, tmp_path: Path) -> Iterator[RecoveryContext]:
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        yield recovery


def printed(done: Result) -> Any:
    """The JSON that a command printed."""
    assert (done.exception, done.exit_code) == (None, 0), done.output
    return json.loads(done.stdout)


def approved(run: Run, *words: str) -> Any:
    """The JSON that a command printed after its plan was approved."""
    return printed(run(*words, "--approve", printed(run(*words, "--plan"))["approve"]))


def second_place(directory: Path, path: str, **more: object) -> None:
    """Write a second place into the configuration."""
    written = json.loads((directory / "shop.yaml").read_text())
    written["storage"]["mirror"] = {"backend": "filesystem", "path": path, **more}
    (directory / "shop.yaml").write_text(json.dumps(written))


def test_a_second_place_is_filled_and_what_is_damaged_is_named(run: Run, tmp_path: Path) -> None:
    assert "storage.mirror" in str(run("mirror", "shop", as_json=False).exception)
    second_place(tmp_path, "second")
    plan = printed(run("mirror", "shop", "--plan"))
    assert (plan["copies"] > 0, plan["proven"], FIRST in plan["savepoints"]) == (True, 0, True)
    assert not list((tmp_path / "second").rglob("manifest*"))
    shown = run("mirror", "shop", "--plan", as_json=False).output
    assert f"Savepoints that are in one place only: {', '.join(plan['savepoints'])}." in shown
    done = printed(run("mirror", "shop"))
    assert (done["copied"], done["bytes"], done["savepoints"]) == (plan["copies"], plan["bytes"], plan["savepoints"])
    said = run("mirror", "shop", as_json=False)
    assert (said.exit_code, said.stdout.split()[0]) == (0, "0")
    odd = next((tmp_path / "second").rglob("*.parquet"))
    odd.write_bytes(bytes(len(odd.read_bytes())))
    assert run("mirror", "shop", as_json=False).exit_code == 0, "what was proven is not read again"
    found = run("mirror", "shop", "--full", as_json=False)
    assert isinstance(found.exception, Damaged)
    assert odd.relative_to(tmp_path / "second").as_posix() in found.stderr
    odd.unlink()
    assert printed(run("mirror", "shop", "--full"))["copied"] == 1


def test_when_the_repository_is_lost_the_second_place_takes_its_place_until_there_is_a_new_one(run: Run, tmp_path: Path) -> None:
    second_place(tmp_path, "second")
    printed(run("mirror", "shop"))
    listed = printed(run("savepoints", "list", "shop"))
    restore = ("restore", "shop", "--from", "mirror", "--plan")
    refused = run(*restore, as_json=False).exception
    assert isinstance(refused, Refused)
    assert "answers and has 4 savepoints" in str(refused)
    assert refused.commands == ("streams-recovery mirror shop --from mirror --full",)
    first = tmp_path / "repository"
    first.rename(tmp_path / "lost")
    from_second = printed(run("savepoints", "list", "shop", "--from", "mirror"))
    assert from_second == [one | {"in_second_place": False} for one in listed], "the first place is the other one now"
    (told,) = printed(run("info", "shop", "--from", "mirror"))["applications"]
    assert told["savepoints"] == len(listed)
    planned = run(*restore, as_json=False)
    assert isinstance(planned.exception, BrokerUnavailable), "it is not refused, and no broker is there"
    said = f"Warning: the first place {first} is not there: nobody else may use it meanwhile"
    assert said in planned.stderr
    assert said in run("dismiss", "shop", RESTORE, "--from", "mirror", "--plan", as_json=False).stderr
    assert not first.exists()
    back = printed(run("mirror", "shop", "--from", "mirror"))
    assert (back["place"], len(back["savepoints"])) == (str(first), len(listed))
    assert printed(run("savepoints", "list", "shop")) == listed
    assert printed(run("mirror", "shop"))["copied"] == 0


@pytest.mark.parametrize(
    "words",
    ["restore shop --plan", f"resume shop {RESTORE} --plan", "undo shop --plan", f"dismiss shop {RESTORE} --plan"],
)
def test_nothing_is_done_in_the_second_place_while_the_first_one_answers_and_looks_are_not_refused(
    run: Run, tmp_path: Path, words: str
) -> None:
    second_place(tmp_path, "second")
    printed(run("mirror", "shop"))
    refused = run(*words.split(), "--from", "mirror", as_json=False).exception
    assert isinstance(refused, Refused)
    assert "is not lost" in str(refused)
    shown = run("savepoints", "show", "shop", FIRST, "--from", "mirror", as_json=False)
    assert (shown.exit_code, shown.stdout) == (0, run("savepoints", "show", "shop", FIRST, as_json=False).stdout)
    (tmp_path / "repository").rename(tmp_path / "lost")
    assert "nobody else may use it meanwhile" in run(*words.split(), "--from", "mirror", as_json=False).stderr
    for look in (("savepoints", "show", "shop", FIRST), ("evidence", "shop")):
        assert "is not there" not in run(*look, "--from", "mirror", as_json=False).stderr


def test_an_application_without_savepoints_does_not_begin_from_those_of_another_one_in_the_second_place_of_a_repository_that_answers(
    run: Run, tmp_path: Path
) -> None:
    second_place(tmp_path, "second")
    printed(run("mirror", "shop"))
    written = json.loads((tmp_path / "shop.yaml").read_text())
    annex = written | {"name": "annex", "application": written["application"] | {"id": "annex"}}
    (tmp_path / "annex.yaml").write_text(json.dumps(annex))
    restore = ("restore", "annex", "--source", "shop", "--from", "mirror", "--plan")
    refused = run(*restore, as_json=False).exception
    assert isinstance(refused, Refused)
    assert "answers and has 4 savepoints" in str(refused)
    (tmp_path / "repository").rename(tmp_path / "lost")
    assert "is not there: nobody else may use it meanwhile" in run(*restore, as_json=False).stderr


def test_a_repository_moves_and_the_lines_to_write_are_printed(run: Run, tmp_path: Path) -> None:
    second_place(tmp_path, "second", retention={"keep_monthly": 36})
    plan = run("storage", "move", "shop", "--plan", as_json=False)
    assert "is marked: nothing is written to it any more" in plan.stdout
    assert not list((tmp_path / "second").rglob("manifest*"))
    approved = printed(run("storage", "move", "shop", "--plan"))["approve"]
    moved = run("storage", "move", "shop", "--approve", approved, as_json=False)
    assert moved.exit_code == 0, moved.output
    lines = moved.stdout[moved.stdout.index("storage:") :]
    # Without its rules the next expiry there would take what only these keep.
    assert yaml.safe_load(lines) == {
        "storage": {"backend": "filesystem", "path": str(tmp_path / "second")},
        "retention": {"keep_monthly": 36},
    }
    listed = printed(run("savepoints", "list", "shop"))
    written = json.loads((tmp_path / "shop.yaml").read_text()) | yaml.safe_load(lines)
    (tmp_path / "shop.yaml").write_text(json.dumps(written))
    assert [one | {"in_second_place": True} for one in printed(run("savepoints", "list", "shop"))] == listed
    assert run("verify", "shop", as_json=False).exit_code == 0


def test_info_and_the_list_say_which_savepoints_are_in_one_place_and_since_when(run: Run, tmp_path: Path) -> None:
    assert {one["in_second_place"] for one in printed(run("savepoints", "list", "shop"))} == {None}
    assert "second place" not in run("info", "shop", as_json=False).stdout.lower()
    second_place(tmp_path, "second")
    alone = "4 savepoints are in one place only, since 2026-11-21 00:00:00 UTC, and not in"
    for words in ("info", "savepoints list"):
        assert alone in run(*words.split(), "shop", as_json=False).stdout
    assert not (tmp_path / "second").exists(), "to look makes nothing"
    printed(run("mirror", "shop"))
    next((tmp_path / "second").rglob(f"{FIRST}/manifest*")).unlink()
    listed = {one["savepoint_id"]: one["in_second_place"] for one in printed(run("savepoints", "list", "shop"))}
    assert listed == {name: name != FIRST for name in listed}
    assert "1 savepoint is in one place only" in run("info", "shop", as_json=False).stdout
    printed(run("mirror", "shop"))
    for words in ("info", "savepoints list"):
        assert "the manifests of all savepoints are in" in run(*words.split(), "shop", as_json=False).stdout


def test_a_second_place_that_does_not_answer_is_no_error_of_a_look(run: Run, tmp_path: Path) -> None:
    written = json.loads((tmp_path / "shop.yaml").read_text())
    written["storage"]["mirror"] = {
        "backend": "s3",
        "bucket": "b",
        "endpoint": "http://127.0.0.1:9",
        "allow_http": True,
        "connection": "nobody",
    }
    (tmp_path / "shop.yaml").write_text(json.dumps(written))
    (told,) = printed(run("info", "shop"))["applications"]
    assert "nobody" in told["second_place"]["problem"]
    assert {one["in_second_place"] for one in printed(run("savepoints", "list", "shop"))} == {None}
    assert "Second place: not known: " in run("savepoints", "list", "shop", as_json=False).stdout


def test_what_the_repository_has_lost_is_put_back_from_the_second_place(run: Run, tmp_path: Path) -> None:
    second_place(tmp_path, "second")
    printed(run("mirror", "shop"))
    gone = next((tmp_path / "repository").rglob("*.parquet"))
    content = gone.read_bytes()
    gone.unlink()
    assert run("verify", "shop", as_json=False).exit_code == 26
    assert run("verify", "shop", "--from", "mirror", as_json=False).exit_code == 0
    assert printed(run("mirror", "shop", "--from", "mirror", "--full"))["copied"] >= 1
    assert gone.read_bytes() == content
    assert run("verify", "shop", as_json=False).exit_code == 0


@pytest.mark.parametrize("words", ["savepoints list shop", "mirror shop --plan"])
def test_a_repository_that_does_not_answer_names_the_second_place(
    run: Run, tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_place(tmp_path, "second")

    def silent(_: Repository, prefix: str) -> list[StoredFile]:
        raise RepositoryUnavailable(f"listing {prefix} failed", next_step="check that the store can be reached")

    monkeypatch.setattr(Repository, "listed", silent)
    failed = run(*words.split(), as_json=False).exception
    assert isinstance(failed, RepositoryUnavailable)
    assert failed.commands == (
        "streams-recovery savepoints list shop --from mirror",
        "streams-recovery restore shop --from mirror --plan",
    )
    failed = run("savepoints", "list", "shop", "--from", "mirror", as_json=False).exception
    assert isinstance(failed, RepositoryUnavailable)
    assert failed.commands == ()


def test_what_has_expired_in_the_repository_expires_in_the_second_place_when_a_person_says_so(run: Run, tmp_path: Path) -> None:
    second_place(tmp_path, "second")
    retain(tmp_path, **ONE)
    printed(run("mirror", "shop"))
    assert run("expire", "shop", "--from", "mirror", "--as-configured", as_json=False).exit_code == 2
    here = printed(run("expire", "shop", "--plan"))
    there = printed(run("expire", "shop", "--from", "mirror", "--plan"))
    assert here["approve"] != there["approve"]
    assert FIRST in approved(run, "expire", "shop")["expired"]
    assert next((tmp_path / "second").rglob(f"{FIRST}/manifest*"))
    held = ApplicationLock(
        Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "second"))), Layout("shop"), lambda: int(time.time() * 1000)
    )
    held.acquire("expiry 1", lease_seconds=600, purpose="a test")
    due = printed(run("expire", "shop", "--from", "mirror", "--plan"))
    in_the_way = run("expire", "shop", "--from", "mirror", "--approve", due["approve"], as_json=False).exception
    assert isinstance(in_the_way, LockHeld)
    (unlock,) = in_the_way.commands
    assert unlock == "streams-recovery unlock shop 'expiry 1' --from mirror"
    assert approved(run, *shlex.split(unlock)[1:])["taken"]
    assert FIRST in approved(run, "expire", "shop", "--from", "mirror")["expired"]
    assert list((tmp_path / "second").rglob(f"savepoints/{FIRST}/manifest*")) == []
    (tmp_path / "repository").rename(tmp_path / "lost")
    refused = run("expire", "shop", "--from", "mirror", "--plan", as_json=False).exception
    assert isinstance(refused, Refused)
    assert "may be the last" in str(refused)


def test_the_first_place_as_a_second_one_is_a_mistake_of_the_configuration(run: Run, tmp_path: Path) -> None:
    second_place(tmp_path, "repository")
    refused = run("mirror", "shop", as_json=False)
    assert isinstance(refused.exception, ConfigInvalid)
    assert "is the repository itself" in str(refused.exception)


def test_keeping_and_releasing_say_who_keeps_a_savepoint_then(run: Run, shop: RecoveryContext) -> None:
    words = ("shop", FIRST, "--reason", "a test")
    assert printed(run("savepoints", "keep", *words)) == {"savepoint_id": FIRST, "kept": True, "restores": [], "until": None}
    pin(shop, FIRST, keep=True, requested_by="test", reason="", restore_id=RESTORE)
    assert printed(run("savepoints", "keep", *words)) == {"savepoint_id": FIRST, "kept": True, "restores": [RESTORE], "until": None}
    given_up = approved(run, "savepoints", "release", *words, "--restore", RESTORE)
    assert given_up == {"savepoint_id": FIRST, "kept": True, "restores": [], "until": given_up["until"]}
    done = printed(run("savepoints", "release", *words))
    assert done == {"savepoint_id": FIRST, "kept": False, "restores": [], "until": done["until"]}
    listed = {one["savepoint_id"]: (one["pinned"], one["released_until"]) for one in printed(run("savepoints", "list", "shop"))}
    assert listed == {name: (False, done["until"] if name == FIRST else None) for name in listed}
    assert "it stays until 20" in run("savepoints", "release", *words, as_json=False).output
    assert "released: stays until" in run("savepoints", "list", "shop", as_json=False).output


def test_one_that_a_restore_keeps_is_still_kept_when_a_person_releases_it(run: Run, shop: RecoveryContext) -> None:
    pin(shop, FIRST, keep=True, requested_by="test", reason="", restore_id=RESTORE)
    done = printed(run("savepoints", "release", "shop", FIRST, "--reason", "a test"))
    assert done == {"savepoint_id": FIRST, "kept": True, "restores": [RESTORE], "until": None}


def test_a_restore_that_is_dismissed_is_named(run: Run, shop: RecoveryContext) -> None:
    journal = AppendLog(shop.repository, shop.layout.journal(RESTORE), JournalEntry)
    journal.append(JournalEntry(phase=Phase.DESTROYING, at=1, created=()))
    assert approved(run, "dismiss", "shop", RESTORE) == {"restore_id": RESTORE, "dismissed": True}
    assert unfinished.unfinished_restore(shop) is None


@pytest.mark.remedy("lock-take")
def test_a_lock_that_is_taken_says_so_and_what_may_still_be_held(run: Run, shop: RecoveryContext) -> None:
    shop.lock.acquire("backup 1", lease_seconds=600, purpose="a test")
    quiesce_record.begin(shop, RESTORE, QuiesceMode.PAUSE, ("one",))
    held = {"instances": ["one"], "mode": "pause"}
    assert approved(run, "unlock", "shop", "backup 1") == {"owner": "backup 1", "taken": True, "held": held}
    quiesce_record.end(shop)
    assert printed(run("unlock", "shop", "backup 1")) == {"owner": "backup 1", "taken": False, "held": None}
    shop.lock.acquire("backup 2", lease_seconds=600, purpose="a test")
    assert "which is proven when in Airflow the run that" in run("unlock", "shop", "backup 2", "--plan", as_json=False).output


def test_the_command_that_the_refusal_of_an_archiver_prints_gives_its_lock_back(run: Run, shop: RecoveryContext, tmp_path: Path) -> None:
    shop.lock.acquire("backup 1", lease_seconds=600, purpose="a test")
    lock = archive_lock(shop)
    lock.acquire("archiver 1", lease_seconds=600, purpose="archiving")
    with pytest.raises(LockHeld) as refused:
        lock.acquire("archiver 2", lease_seconds=600, purpose="archiving")
    _, *words = shlex.split(refused.value.commands[0])
    assert approved(run, *words) == {"owner": "archiver 1", "taken": True, "held": None}
    assert lock.holder() is None
    assert shop.lock.holder() is not None, "the lock of the application is another one"
    lock.acquire("archiver 3", lease_seconds=600, purpose="archiving")
    [torn] = (tmp_path / "repository" / shop.layout.archiving.locks).glob("*3.json")
    torn.write_text("{")
    [key] = [one.key for one in shop.repository.listed(shop.layout.archiving.locks) if one.key.endswith(torn.name)]
    assert approved(run, "unlock", "shop", key) == {"owner": key, "taken": True, "held": None}
    assert (lock.holder(), shop.lock.holder() is not None) == (None, True)


@pytest.mark.parametrize(
    "words",
    [("savepoints", "release", "shop", FIRST, "--reason", "x"), ("dismiss", "shop", RESTORE), ("unlock", "shop", "backup 1")],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_plan_is_json_too(run: Run, words: tuple[str, ...]) -> None:
    planned = printed(run(*words, "--plan"))
    assert planned["approve"].startswith(planned["hash"])
    assert planned["command"].endswith(f" --approve {planned['approve']}")
    assert planned["application_id"] == "shop"


def test_the_plan_of_what_does_not_ask_has_no_hash(run: Run, shop: RecoveryContext) -> None:
    planned = printed(run("savepoints", "keep", "shop", FIRST, "--reason", "x", "--plan"))
    assert set(planned) == {"application_id", "text", "parts"}
    assert maintenance.plan_expiry(shop).keep[0].savepoint_id != FIRST, "nothing was kept"


def retain(directory: Path, **rules: object) -> None:
    """Give the application these rules of retention."""
    file = directory / "shop.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "retention": rules}))


ONE = {"keep_last": 1, "keep_hourly": 0, "keep_daily": 0, "keep_weekly": 0, "keep_monthly": 0, "minimum": 1}


@pytest.mark.parametrize(("configured", "announced"), [({}, 1), ({"apply": "after_days"}, 1), ({"apply": False}, 0)])
def test_a_scheduled_expiry_only_shows_its_plan_where_nothing_else_is_configured(
    run: Run, shop: RecoveryContext, tmp_path: Path, configured: dict[str, object], announced: int
) -> None:
    retain(tmp_path, **ONE, **configured)
    planned = printed(run("expire", "shop", "--as-configured"))
    assert planned["hash"]
    assert FIRST in shop.savepoints.summaries()
    assert len(list(AppendLog(shop.repository, shop.layout.announcements, Announcement).readable_back())) == announced
    # The command that the plan names carries it out.
    assert "--approve" in planned["command"]
    assert FIRST in printed(run("expire", "shop", "--as-configured", "--approve", planned["approve"]))["expired"]
    assert FIRST not in shop.savepoints.summaries()


def test_a_scheduled_expiry_is_carried_out_without_a_question_where_that_is_configured(
    run: Run, shop: RecoveryContext, tmp_path: Path
) -> None:
    retain(tmp_path, apply=True, **ONE)
    assert FIRST in printed(run("expire", "shop", "--as-configured"))["expired"]
    assert FIRST not in shop.savepoints.summaries()


def test_an_expiry_that_is_no_scheduled_one_asks_whatever_is_configured(run: Run, shop: RecoveryContext, tmp_path: Path) -> None:
    retain(tmp_path, apply=True, **ONE)
    assert run("expire", "shop").exit_code != 0
    assert FIRST in shop.savepoints.summaries()
