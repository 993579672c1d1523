"""A second place of a repository, between two real directories: killed at any call, it is whole as far as it goes; nothing in it is written over."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.config.backup import Mirror
from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from streams_recovery.storage.seals import new_private_key
from tests.support.repository.golden import FIRST, NEWEST, SECOND, THIRD, OpenGolden, checked, logs, on, path_of, third


def with_mirror(recovery: RecoveryContext, place: Path) -> RecoveryContext:
    storage = recovery.config.storage.model_copy(update={"mirror": Mirror(backend="filesystem", path=str(place))})
    return replace(recovery, config=recovery.config.model_copy(update={"storage": storage}))


@pytest.fixture
def two(golden: OpenGolden, tmp_path: Path) -> RecoveryContext:
    """The good repository, with a second place in another directory."""
    return with_mirror(golden("good"), tmp_path / "second")


def there(recovery: RecoveryContext) -> Path:
    assert recovery.config.storage.mirror is not None
    return Path(str(recovery.config.storage.mirror.path))


def files(root: Path) -> dict[str, str]:
    """The objects of a repository by their keys, with their hashes."""
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def second(golden: OpenGolden) -> Callable[[], RecoveryContext]:
    """Opens the context whose repository is the second place."""
    return lambda: golden("good", place="second")


def test_everything_that_a_restore_needs_is_in_the_second_place_and_nothing_that_works_now(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    third(two)
    logs(two)
    before = files(path_of(two, ""))
    said: list[str] = []
    report = maintenance.fill_mirror(two, said.append)
    assert (report.damaged, report.savepoints) == ((), (THIRD, SECOND, FIRST))
    assert [text.split()[1] for text in said] == [THIRD, SECOND, FIRST], "the newest first"
    first, copied = files(path_of(two, "")), files(there(two))
    assert first == before, "nothing is written to the first place"
    assert copied.items() <= first.items()
    kinds = {key.split("/")[1] for key in first.keys() - copied.keys()}
    assert kinds == {"locks", "quiesce-records"}
    moved = second()
    assert checked(moved, "full").findings == ()
    assert moved.savepoints.read(THIRD) == two.savepoints.read(THIRD)


def test_a_second_run_copies_and_reads_nothing_but_the_newest_entries_and_only_what_is_new(two: RecoveryContext) -> None:
    logs(two)
    first = maintenance.fill_mirror(two)
    again = maintenance.fill_mirror(two)
    assert (first.copied > 0, again.copied, again.savepoints) == (True, 0, ())
    assert again.proven == 2, "the newest pin and the newest hold"
    third(two)
    new = maintenance.plan_mirror(two)
    assert new.savepoints == (THIRD,)
    assert {step.what.key.split("/")[1] for step in new.steps if step.copies} == {"savepoints", "published", "details"}, (
        "all its segments and tables were proven there with the savepoint before"
    )
    assert maintenance.plan_mirror(two, full=True).copies == new.copies
    assert len(maintenance.plan_mirror(two, full=True).steps) > len(new.steps) + 4


class Killed(BaseException):
    """Nothing catches this, as nothing catches SIGKILL."""


@pytest.mark.parametrize("at", [1, 3, 5, 6])
def test_a_run_that_is_killed_leaves_only_whole_savepoints_and_the_next_one_goes_on(
    two: RecoveryContext, second: Callable[[], RecoveryContext], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    left, create = [at], Repository.create

    def dying(self: Repository, key: str, data: bytes, *, previous: str | None = None) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        create(self, key, data, previous=previous)

    monkeypatch.setattr(Repository, "create", dying)
    with pytest.raises(Killed):
        maintenance.fill_mirror(two)
    monkeypatch.undo()
    copied = files(there(two))
    assert copied
    moved = second()
    for savepoint in moved.savepoints.ids():
        assert checked(moved, "full", savepoint).good
    for path in there(two).glob("*/checks"):
        shutil.rmtree(path)
    for path in there(two).glob("*/work"):
        shutil.rmtree(path)
    report = maintenance.fill_mirror(two)
    assert (report.damaged, report.copied) == ((), len(files(there(two))) - len(copied))
    assert report.proven == len(copied), "what a killed run has left is read before a savepoint names it"
    assert checked(second(), "full").good


def test_a_segment_with_other_bytes_of_the_same_size_in_the_second_place_is_named_and_stays(two: RecoveryContext) -> None:
    key = f"golden/segments/{NEWEST}"
    strange = b"x" * path_of(two, key).stat().st_size
    (there(two) / key).parent.mkdir(parents=True)
    (there(two) / key).write_bytes(strange)
    report = maintenance.fill_mirror(two)
    assert [one.key for one in report.damaged] == [key]
    assert (there(two) / key).read_bytes() == strange
    assert report.savepoints == (FIRST,), "the second one needs it, the first does not"
    with pytest.raises(Damaged, match=r"is in the second place .* with other bytes"):
        maintenance.raise_unless_mirrored(report)
    (there(two) / key).unlink()
    assert maintenance.fill_mirror(two).savepoints == (SECOND,)


def test_a_segment_that_the_first_place_has_lost_or_altered_is_not_spread(golden: OpenGolden, tmp_path: Path) -> None:
    for name in ("missing-segment", "flipped-bit"):
        recovery = with_mirror(golden(name, place=name), tmp_path / f"second-{name}")
        report = maintenance.fill_mirror(recovery)
        assert report.savepoints == (FIRST,)
        assert any(NEWEST in one.why for one in report.damaged)
        assert not (there(recovery) / f"golden/segments/{NEWEST}").exists()
        assert checked(golden(name, place=f"second-{name}"), "full").good


def test_a_savepoint_that_expires_in_the_first_place_stays_in_the_second(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    maintenance.fill_mirror(two)
    two.savepoints.retire(FIRST, at=1)
    two.repository.delete([two.layout.manifest(FIRST)])
    assert maintenance.fill_mirror(two).damaged == ()
    assert FIRST in second().savepoints.ids()


def test_one_that_has_expired_before_it_was_copied_leaves_no_record_that_it_was_lost(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    third(two)
    two.savepoints.retire(THIRD, at=1)
    two.repository.delete([two.layout.manifest(THIRD)])
    maintenance.fill_mirror(two)
    assert checked(second(), "full").good


def test_logs_of_two_places_that_were_both_written_to_are_told_apart(two: RecoveryContext) -> None:
    maintenance.pin(two, FIRST, keep=True, requested_by="me", reason="one")
    maintenance.fill_mirror(two)
    pins = [there(two) / two.layout.pins / f"00000000000{number}.json" for number in (1, 2)]
    pins[0].write_bytes(pins[0].read_bytes().replace(b'"me"', b'"eve'[:4]))
    maintenance.pin(two, SECOND, keep=True, requested_by="me", reason="two")
    report = maintenance.fill_mirror(two)
    assert [one.key for one in report.damaged] == [f"{two.layout.pins}000000000001.json"]
    assert not pins[1].exists(), "no entry comes behind one that is another one's"


def test_the_first_place_by_another_name_is_no_second_one(two: RecoveryContext, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path_of(two, ""))
    for place in (tmp_path / "link", tmp_path / "link" / "below"):
        with pytest.raises(ConfigInvalid, match="by another name"):
            maintenance.fill_mirror(with_mirror(two, place))
        with pytest.raises(ConfigInvalid, match="by another name"):
            maintenance.plan_mirror(with_mirror(two, place))
    assert not (path_of(two, "") / "below").exists()


def test_a_sealed_repository_is_copied_without_its_private_key_and_a_forged_savepoint_is_not(two: RecoveryContext) -> None:
    private, public = new_private_key()
    location = two.config.storage.location
    sealed = Repository(location, seal=SealKeys(public=(public,), private=private))
    original = two.savepoints.read(SECOND)
    store = SavepointStore(sealed, two.layout)
    store.publish(replace(original, savepoint_id=THIRD, parent_id=None))
    reader = SealKeys(public=(public,), missing="only reads")
    report = maintenance.fill_mirror(on(two, Repository(location, seal=reader)))
    assert report.savepoints == (THIRD,)
    assert {one.key for one in report.damaged} == {two.layout.manifest(one) for one in (FIRST, SECOND)}, "nobody has sealed them"
    moved = SavepointStore(Repository(StorageLocation(backend="filesystem", path=str(there(two))), seal=reader), two.layout)
    assert moved.read(THIRD) == store.read(THIRD)
    assert moved.publication(THIRD) == store.publication(THIRD)


def test_without_a_second_place_the_section_is_named(golden: OpenGolden) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        maintenance.plan_mirror(golden("good"))
    assert "storage.mirror" in caught.value.next_step


def test_a_plan_writes_nothing(two: RecoveryContext) -> None:
    plan = maintenance.plan_mirror(two)
    assert plan.savepoints == (SECOND, FIRST)
    assert not there(two).exists() or files(there(two)) == {}
