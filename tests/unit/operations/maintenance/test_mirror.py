"""A second place of a repository, between two real directories: killed at any call, it is whole as far as it goes; nothing in it is written over."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.config.backup import Mirror
from streams_recovery.core.archive.cuts import ArchivedCut, KeptCut
from streams_recovery.core.archive.log import ArchivedLog, ArchiveEntry, ArchiveEvent
from streams_recovery.core.errors import ConfigInvalid, Damaged, LockHeld, Refused
from streams_recovery.core.kafka_types import QuiesceMode, TopicPartition
from streams_recovery.core.repository.encryption import DataKey, KeyAccess, KeyPlace, attempt_with
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.operations import archive, maintenance, quiesce_record
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.second_place import require_lost, see_second_place
from streams_recovery.operations.status.log import newest
from streams_recovery.operations.status.look import refresh
from streams_recovery.operations.unfinished import refuse_if_unfinished
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.keys import opened
from streams_recovery.storage.keys.keyring import Keyring
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from streams_recovery.storage.seals import new_private_key
from tests.support.examples.savepoints import manifest_of
from tests.support.repository.golden import FIRST, NEWEST, SECOND, SECOND_AT, THIRD, OpenGolden, checked, logs, on, path_of, third
from tests.support.storage.key_services import CLIENT_SECRET, key_services


def with_mirror(recovery: RecoveryContext, place: Path) -> RecoveryContext:
    storage = recovery.config.storage.model_copy(update={"mirror": Mirror(backend="filesystem", path=str(place))})
    return replace(recovery, config=recovery.config.model_copy(update={"storage": storage}))


@pytest.fixture
def two(golden: OpenGolden, tmp_path: Path) -> RecoveryContext:
    """The good repository, with a second place in another directory."""
    return with_mirror(golden("good"), tmp_path / "second")


def reverse(recovery: RecoveryContext) -> RecoveryContext:
    """The context for the way back, from the second place into the first one."""
    config = recovery.config.from_second_place
    return replace(on(recovery, Repository(config.storage.location)), config=config)


def there(recovery: RecoveryContext) -> Path:
    assert recovery.config.storage.mirror is not None
    return Path(str(recovery.config.storage.mirror.path))


def files(root: Path) -> dict[str, str]:
    """The objects of a repository by their keys, with their hashes, without those that say which places hold it."""
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {key: hashlib.sha256(path.read_bytes()).hexdigest() for key, path in found.items() if "/places/" not in key}


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
    assert again.proven == 3, "the newest pin, the newest hold, the newest entry of a journal"
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
        left[0] -= "/places/" not in key
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


def test_a_first_place_that_has_safety_savepoints_only_is_not_lost(two: RecoveryContext) -> None:
    there(two).mkdir()
    own, safety = (path_of(two, one.savepoints) for one in (two.layout, two.layout.safety))
    shutil.rmtree(safety, ignore_errors=True)
    safety.parent.mkdir(parents=True, exist_ok=True)
    own.rename(safety)
    with pytest.raises(Refused, match="is not lost"):
        require_lost(reverse(two))
    shutil.rmtree(safety)
    assert "has no savepoints" in require_lost(reverse(two))


def test_without_a_second_place_the_section_is_named(golden: OpenGolden) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        maintenance.plan_mirror(golden("good"))
    assert "storage.mirror" in caught.value.next_step


def test_a_plan_writes_nothing(two: RecoveryContext) -> None:
    plan = maintenance.plan_mirror(two)
    assert plan.savepoints == (SECOND, FIRST)
    assert not there(two).exists() or files(there(two)) == {}


RESTORE = "20261121T030000Z-00000000aa"


def entry(recovery: RecoveryContext, *phases: Phase) -> None:
    journal = AppendLog(recovery.repository, recovery.layout.journal(RESTORE), JournalEntry)
    for phase in phases:
        journal.append(JournalEntry(phase=phase, at=SECOND_AT, created=()))


def test_a_manifest_that_arrived_broken_is_named_in_every_run(two: RecoveryContext, monkeypatch: pytest.MonkeyPatch) -> None:
    key, create = two.layout.manifest(third(two).parent.name), Repository.create

    def breaking(self: Repository, key_: str, data: bytes, *, previous: str | None = None) -> None:
        create(self, key_, bytes([*data[:-1], data[-1] ^ 1]) if key_ == key else data, previous=previous)

    monkeypatch.setattr(Repository, "create", breaking)
    assert [one.key for one in maintenance.fill_mirror(two).damaged] == [key]
    monkeypatch.undo()
    assert [one.key for one in maintenance.fill_mirror(two).damaged] == [key]


def test_a_segment_that_somebody_removed_in_the_second_place_comes_again_with_the_next_savepoint_that_needs_it(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    third(two)
    maintenance.fill_mirror(two)
    (there(two) / f"golden/segments/{NEWEST}").unlink()
    newer = "20261121T040000Z-0000000004"
    two.savepoints.publish(replace(two.savepoints.read(THIRD), savepoint_id=newer, parent_id=THIRD))
    report = maintenance.fill_mirror(two)
    assert (report.damaged, report.savepoints) == ((), (newer,))
    assert checked(second(), "full", newer).good


def test_one_that_is_gone_in_both_places_keeps_the_savepoint_away(two: RecoveryContext) -> None:
    third(two)
    maintenance.fill_mirror(two)
    for root in (there(two), path_of(two, "")):
        (root / f"golden/segments/{NEWEST}").unlink()
    newer = "20261121T040000Z-0000000004"
    two.savepoints.publish(replace(two.savepoints.read(THIRD), savepoint_id=newer, parent_id=THIRD))
    report = maintenance.fill_mirror(two)
    assert report.savepoints == ()
    assert [one.key for one in report.damaged] == [two.layout.manifest(newer)]


def test_a_restore_that_only_the_second_place_knows_of_is_named_until_the_first_one_knows_it(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    maintenance.fill_mirror(two)
    entry(second(), Phase.OPENED, Phase.DESTROYING)
    report = maintenance.fill_mirror(two)
    assert [one.key for one in report.damaged] == [f"{two.layout.journal(RESTORE)}000000000002.json"]
    assert "streams-recovery mirror golden --from mirror" in report.damaged[0].why
    assert [one.key for one in maintenance.plan_mirror(two).passed_over] == [one.key for one in report.damaged]
    maintenance.fill_mirror(reverse(two), back=True)
    with pytest.raises(Refused):
        refuse_if_unfinished(two)
    assert maintenance.fill_mirror(two).damaged == ()


def test_logs_that_the_first_place_alone_has_gone_on_with_are_no_finding_of_the_way_back(two: RecoveryContext) -> None:
    maintenance.fill_mirror(two)
    logs(two)
    assert maintenance.fill_mirror(reverse(two), back=True).damaged == ()


def test_a_journal_that_both_places_went_on_with_is_told_apart(two: RecoveryContext, second: Callable[[], RecoveryContext]) -> None:
    entry(two, Phase.OPENED)
    maintenance.fill_mirror(two)
    entry(two, Phase.CLOSED)
    entry(second(), Phase.LOADED)
    assert [one.key for one in maintenance.fill_mirror(two).damaged] == [f"{two.layout.journal(RESTORE)}000000000002.json"]


def test_what_has_expired_in_the_first_place_does_not_come_back(two: RecoveryContext) -> None:
    maintenance.fill_mirror(two)
    two.savepoints.retire(FIRST, at=1)
    two.repository.delete([two.layout.manifest(FIRST)])
    two.repository.delete([two.layout.manifest(SECOND)])
    two.repository.create(two.layout.retired(SECOND, 1), b"not what was published")
    report = maintenance.fill_mirror(reverse(two), back=True)
    assert report.savepoints == (SECOND,), "it was lost: what lies there is no copy of it"
    assert two.savepoints.ids() == [SECOND]


def test_the_way_back_holds_the_lock_of_the_place_where_expiry_works(two: RecoveryContext, monkeypatch: pytest.MonkeyPatch) -> None:
    maintenance.fill_mirror(two)
    two.repository.delete([two.layout.manifest(SECOND)])
    held = two.lock.acquire("expiry", lease_seconds=60, purpose="a test")
    with pytest.raises(LockHeld):
        maintenance.fill_mirror(reverse(two), back=True)
    assert two.savepoints.ids() == [FIRST]
    two.lock.release(held)
    create = Repository.create

    def creating(self: Repository, key: str, data: bytes, *, previous: str | None = None) -> None:
        if "/locks/" not in key:
            with pytest.raises(LockHeld):
                maintenance.expire(two, "expiry")
        create(self, key, data, previous=previous)

    monkeypatch.setattr(Repository, "create", creating)
    assert maintenance.fill_mirror(reverse(two), back=True).savepoints == (SECOND,)
    monkeypatch.undo()
    assert two.lock.holder() is None


def test_the_lock_of_a_sealed_place_is_sealed(two: RecoveryContext) -> None:
    private, public = new_private_key()
    keys = SealKeys(public=(public,), private=private)
    back = on(reverse(two), Repository(StorageLocation(backend="filesystem", path=str(there(two))), seal=keys))
    maintenance.fill_mirror(back, back=True)
    reader = Repository(two.config.storage.location, seal=SealKeys(public=(public,), missing="only reads"))
    records = reader.sizes(two.layout.locks)
    assert len(records) > 1
    for key in records:
        assert reader.get(key), "it raises Forged without a seal"


@pytest.mark.parametrize("broken", [False, True])
def test_a_manifest_that_the_tools_of_a_cloud_have_copied_is_proven_with_all_that_it_names(
    two: RecoveryContext, second: Callable[[], RecoveryContext], broken: bool
) -> None:
    third(two)
    segment = f"golden/segments/{NEWEST}"
    for key in (*map(two.layout.manifest, (FIRST, SECOND, THIRD)), two.layout.published(THIRD), *([segment] if broken else [])):
        copied = there(two) / key
        copied.parent.mkdir(parents=True, exist_ok=True)
        data = path_of(two, key).read_bytes()
        copied.write_bytes(data[::-1] if key == segment else data)
    report = maintenance.fill_mirror(two)
    if broken:
        assert [one.key for one in report.damaged] == [segment]
        assert [one.key for one in maintenance.fill_mirror(two).damaged] == [segment], "also by the next run"
        return
    assert (report.damaged, report.savepoints) == ((), ())
    assert checked(second(), "full").good
    assert maintenance.plan_mirror(two).steps == ()


def test_a_second_place_has_one_repository_of_an_application_id(two: RecoveryContext, golden: OpenGolden) -> None:
    maintenance.fill_mirror(two)
    other = with_mirror(golden("good", place="another"), there(two))
    third(other)
    before = files(there(two))
    for call in (maintenance.fill_mirror, maintenance.plan_mirror):
        with pytest.raises(Refused, match="holds another repository of golden"):
            call(other)  # type: ignore[operator]
    assert files(there(two)) == before
    maintenance.fill_mirror(with_mirror(other, there(two).with_name("third")))
    with pytest.raises(Refused, match="holds another repository of golden than"):
        maintenance.fill_mirror(other)
    with pytest.raises(Refused, match="holds another repository of golden than"):
        maintenance.fill_mirror(reverse(other), back=True)


def test_a_second_place_that_is_not_mounted_is_not_filled_on_the_local_disk(two: RecoveryContext) -> None:
    maintenance.fill_mirror(two)
    mounted = there(two).with_name("mounted")
    there(two).rename(mounted)
    there(two).mkdir()
    for call in (maintenance.fill_mirror, maintenance.plan_mirror):
        with pytest.raises(Refused, match="is empty now: it is not mounted"):
            call(two)  # type: ignore[operator]
    assert files(there(two)) == {}
    there(two).rmdir()
    mounted.rename(there(two))
    assert maintenance.fill_mirror(two).copied == 0
    assert maintenance.fill_mirror(with_mirror(two, there(two).with_name("third"))).copied > 0, "another place is filled anew"


def test_a_first_place_that_is_new_is_filled_from_the_second_one_and_not_the_other_way_round(two: RecoveryContext) -> None:
    maintenance.fill_mirror(two)
    shutil.rmtree(path_of(two, ""))
    path_of(two, "").mkdir()
    two.repository.create(two.layout.pins + "000000000001.json", b"{}")
    with pytest.raises(Refused, match="a copy of one that was lost here"):
        maintenance.fill_mirror(two)
    shutil.rmtree(path_of(two, "golden"))
    assert maintenance.fill_mirror(reverse(two), back=True).savepoints == (SECOND, FIRST)
    assert maintenance.fill_mirror(two).damaged == ()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_run_that_is_killed_while_it_marks_its_places_is_followed(two: RecoveryContext, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    left, create = [at], Repository.create

    def dying(self: Repository, key: str, data: bytes, *, previous: str | None = None) -> None:
        left[0] -= "/places/" in key
        if left[0] < 0:
            raise Killed
        create(self, key, data, previous=previous)

    monkeypatch.setattr(Repository, "create", dying)
    with pytest.raises(Killed):
        maintenance.fill_mirror(two)
    monkeypatch.undo()
    assert maintenance.fill_mirror(two).savepoints == (SECOND, FIRST)


def look(recovery: RecoveryContext, event: ArchiveEvent, start: int, end: int, data_key: DataKey | None = None) -> Path:
    """An entry of the archive that has these offsets of one partition, in a file of its own. Returns where the file is."""
    original = next(file for tp, file in recovery.savepoints.read(SECOND).files())
    data = path_of(recovery, original.key).read_bytes()
    tp = TopicPartition("orders", 0)
    key = recovery.layout.segment(tp, start, end, attempt_with(f"{event}-{start}", data_key))
    recovery.repository.create(key, data)
    file = replace(original, key=key, first_offset=start, last_offset=end - 1, rows=end - start)
    piece = CopiedRange(start=start, end=end, file=file)
    log = ArchivedLog(tp=tp, topic_id="id", start=start, end=end, leader_epoch=0, ranges=(piece,))
    entry = ArchiveEntry(event=event, run="r", at=end, cluster_id="c", safe_at=SECOND_AT + end, logs=(log,))
    archive.archive_log(recovery).append(entry)
    return path_of(recovery, key)


def local_key() -> KeyPlace:
    return KeyPlace(provider="local", address="", options={"secret": base64.b64encode(os.urandom(32)).decode()})


def encrypted(recovery: RecoveryContext, *places: KeyPlace) -> Keyring:
    """An entry of the archive and a savepoint whose files have names of encrypted ones. Returns the keys."""
    ring = Keyring(recovery.repository, KeyAccess(places=places))
    key = ring.writing("golden")
    stored = recovery.repository
    where = look(recovery, ArchiveEvent.COPIED, 0, 5, key)
    source = recovery.savepoints.read(SECOND)
    topic, image, piece = next(
        (topic, one, piece) for topic in source.topics for one in topic.partitions for piece in one.ranges if piece.file is not None
    )
    assert piece.file is not None
    name = piece.file.key.removesuffix(".parquet") + f".{key.key_id}.parquet"
    stored.create(name, path_of(recovery, piece.file.key).read_bytes())
    assert key.key_id in where.name
    pieces = [replace(piece, file=replace(piece.file, key=name)) if one == piece else one for one in image.ranges]
    changed = replace(image, ranges=Ranges.of(pieces))
    images = tuple(changed if one is image else one for one in topic.partitions)
    topics = tuple(replace(topic, partitions=images) if one is topic else one for one in source.topics)
    recovery.savepoints.publish(replace(source, savepoint_id=THIRD, parent_id=None, topics=topics))
    return ring


def test_what_is_encrypted_comes_behind_the_key_that_opens_it(two: RecoveryContext) -> None:
    old, new = local_key(), local_key()
    ring = encrypted(two, old)
    Keyring(two.repository, KeyAccess(places=(new, old))).rotate("golden")
    (key_id,) = ring.ids("golden")
    wraps = [f"{two.layout.keys}{key_id}/{number:012}.json" for number in (1, 2)]
    steps = [step.what.key for step in maintenance.plan_mirror(two).steps]
    at = {key: steps.index(key) for key in (*wraps, f"{two.layout.archive}000000000001.json", two.savepoints.key(THIRD))}
    assert sorted(at.values()) == list(at.values())
    assert maintenance.fill_mirror(two).damaged == ()
    assert (
        Keyring(Repository(StorageLocation(backend="filesystem", path=str(there(two)))), KeyAccess(places=(new,)))
        .stored("golden")[0]
        .problem
        == ""
    )


@pytest.mark.parametrize("how", ["lost", "other"])
def test_what_is_encrypted_does_not_come_without_the_key_that_opens_it(two: RecoveryContext, how: str) -> None:
    ring = encrypted(two, local_key())
    (key_id,) = ring.ids("golden")
    wrap = f"{two.layout.keys}{key_id}/000000000001.json"
    if how == "lost":
        path_of(two, wrap).unlink()
    else:
        target = there(two) / wrap
        target.parent.mkdir(parents=True)
        target.write_bytes(path_of(two, wrap).read_bytes()[::-1])
    report = maintenance.fill_mirror(two)
    assert report.savepoints == (SECOND, FIRST)
    assert any(key_id in one.why for one in report.damaged)
    stored = files(there(two))
    assert two.savepoints.key(THIRD) not in stored
    assert f"{two.layout.archive}000000000001.json" not in stored


def test_a_data_key_that_the_second_place_s_own_key_does_not_open_there_is_named_and_all_is_copied(two: RecoveryContext) -> None:
    first, own = local_key(), replace(local_key(), mirror=True)
    two.repository.encryption = KeyAccess(places=(first, own))
    ring = encrypted(two, first, own)
    (key_id,) = ring.ids("golden")
    wrap = path_of(two, f"{two.layout.keys}{key_id}/000000000002.json")
    stored = json.loads(wrap.read_text())
    wrap.write_text(json.dumps(stored | {"wrapped": stored["wrapped"][::-1]}))
    report = maintenance.fill_mirror(two)
    assert report.savepoints == (THIRD, SECOND, FIRST)
    assert [one.key for one in report.damaged] == [f"{two.layout.keys}{key_id}/"]
    assert "is not opened there by the second place's own key: the data key" in report.damaged[0].why
    assert [one.key for one in maintenance.fill_mirror(two).damaged] == [f"{two.layout.keys}{key_id}/"], "each run says so"
    assert ring.rotate("golden") == [key_id]
    assert maintenance.fill_mirror(two).damaged == (), "a rotation makes up for it"


def test_a_data_key_of_which_a_stranger_has_wrapped_another_one_by_a_public_key_is_named(
    two: RecoveryContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with key_services() as services:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", services.url)
        options = {"tenant_id": "tenant", "client_id": "me", "client_secret": CLIENT_SECRET}
        first, own = local_key(), KeyPlace(provider="azure", address=f"{services.url}/keys/orders", options=options, mirror=True)
        two.repository.encryption = KeyAccess(places=(first, own))
        (key_id,) = encrypted(two, first, own).ids("golden")
        assert maintenance.fill_mirror(two).damaged == ()
        elsewhere = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "stranger")))
        Keyring(elsewhere, KeyAccess(places=(own,)))._store("golden", DataKey(key_id=key_id, secret=bytes(32)), opened(own))
        wrap = path_of(two, f"{two.layout.keys}{key_id}/000000000003.json")
        wrap.write_bytes(elsewhere.get(f"{two.layout.keys}{key_id}/000000000001.json"))
        assert ["gives another key" in one.why for one in maintenance.fill_mirror(two).damaged] == [True]


def test_in_a_sealed_repository_what_is_wrapped_for_the_second_place_is_sealed_there(two: RecoveryContext) -> None:
    private, public = new_private_key()
    first, own = local_key(), replace(local_key(), mirror=True)
    sealed = two.repository.with_seals(SealKeys(public=(public,), private=private))
    Keyring(sealed, KeyAccess(places=(first,))).writing("golden")
    sealed.encryption = KeyAccess(places=(first, own))
    report = maintenance.fill_mirror(replace(two, repository=sealed))
    assert [one.key for one in report.damaged if "/keys/" in one.key] == []
    reader = SealKeys(public=(public,), missing="none")
    found = Keyring(Repository(StorageLocation(backend="filesystem", path=str(there(two))), seal=reader), KeyAccess(places=(own,)))
    assert [one.problem for one in found.stored("golden")] == [""]


def keep_cut(recovery: RecoveryContext, at: int) -> None:
    cut = ArchivedCut(captured_at=at, proof=manifest_of().proof, topics={}, inputs=(), written=(), tails=())
    archive.cut_log(recovery).append(KeptCut(cluster_id="c", cut=cut), whole=False)


def test_the_archive_is_copied_with_what_it_names_and_then_only_what_is_new(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    look(two, ArchiveEvent.COPIED, 0, 5)
    look(two, ArchiveEvent.COPIED, 5, 9)
    keep_cut(two, 7)
    assert maintenance.fill_mirror(two).damaged == ()
    assert archive.read_archive(second()) == archive.read_archive(two)
    assert [one.cut.captured_at for one in archive.kept_cuts(second())] == [7]
    assert checked(second(), "full").good
    look(two, ArchiveEvent.COPIED, 9, 12)
    seen = see_second_place(two)
    assert seen is not None
    assert (seen.entries, seen.archived_at) == (1, SECOND_AT + 9)
    plan = maintenance.plan_mirror(two)
    assert [step.what.key.split("/")[1] for step in plan.steps if step.copies] == ["segments", "archive"]
    proven = [step.what.key for step in plan.steps if not step.copies and "/archive" in step.what.key]
    assert proven == [f"{two.layout.archive}000000000002.json"], "the newest that both have tells whether they are one log"
    maintenance.fill_mirror(two)
    assert archive.read_archive(second()).newest[TopicPartition("orders", 0)].end == 12


@pytest.mark.parametrize("pruned", [False, True])
def test_a_second_place_that_lags_goes_on_at_the_entry_that_has_all_and_has_no_file_that_is_gone(
    two: RecoveryContext, second: Callable[[], RecoveryContext], pruned: bool
) -> None:
    look(two, ArchiveEvent.COPIED, 0, 5)
    keep_cut(two, 3)
    maintenance.fill_mirror(two)
    small = [look(two, ArchiveEvent.COPIED, start, start + 1) for start in range(5, 9)]
    look(two, ArchiveEvent.JOINED, 0, 9)
    look(two, ArchiveEvent.COPIED, 9, 11)
    for path in small:
        path.unlink()
    for at in (4, 5, 6):
        keep_cut(two, at)
    if pruned:
        archive.archive_log(two).prune(2)
        archive.cut_log(two).prune(1)
    assert maintenance.fill_mirror(two).damaged == ()
    there = second()
    assert archive.read_archive(there) == archive.read_archive(two)
    assert [one.cut.captured_at for one in archive.kept_cuts(there)] == ([6, 3] if pruned else [6, 5, 4, 3])
    assert not path_of(there, f"{two.layout.archive}000000000002.json").exists(), "what it names may be gone"
    assert archive.archived_files(there) >= archive.read_archive(two).keys
    assert checked(there, "full").good, "that numbers are missing before an entry that has all is no hole"
    look(there, ArchiveEvent.COPIED, 11, 12)
    keep_cut(there, 8)
    assert archive.read_archive(there).newest[TopicPartition("orders", 0)].end == 12, "an archiver goes on there"


@pytest.mark.parametrize("altered", [False, True])
def test_an_entry_whose_file_is_not_there_does_not_come_nor_what_is_behind_it(
    two: RecoveryContext, second: Callable[[], RecoveryContext], altered: bool
) -> None:
    look(two, ArchiveEvent.COPIED, 0, 5)
    lost = look(two, ArchiveEvent.COPIED, 5, 9)
    look(two, ArchiveEvent.COPIED, 9, 12)
    data = lost.read_bytes()
    lost.unlink()
    if altered:
        lost.write_bytes(data[::-1])
    report = maintenance.fill_mirror(two)
    key = lost.relative_to(path_of(two, "")).as_posix()
    assert [one.key for one in report.damaged] == [key if altered else f"{two.layout.archive}000000000002.json"]
    assert key in report.damaged[0].why
    assert archive.read_archive(second()).newest[TopicPartition("orders", 0)].end == 5


def test_a_file_of_the_archive_that_was_removed_in_the_second_place_comes_again(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    file = look(two, ArchiveEvent.COPIED, 0, 5)
    maintenance.fill_mirror(two)
    copied = there(two) / file.relative_to(path_of(two, ""))
    copied.unlink()
    assert maintenance.fill_mirror(two).copied == 1
    assert copied.exists()
    copied.unlink()
    file.unlink()
    assert [one.key for one in maintenance.fill_mirror(two).damaged] == [f"{two.layout.archive}000000000001.json"]


def test_a_restore_from_the_second_place_adds_nothing_to_the_archive_and_the_first_one_goes_on_where_it_was(
    two: RecoveryContext, second: Callable[[], RecoveryContext]
) -> None:
    look(two, ArchiveEvent.COPIED, 0, 5)
    maintenance.fill_mirror(two)
    look(two, ArchiveEvent.COPIED, 5, 9)
    kept = archive.keep_files(reverse(two), "restore")
    assert kept is not None
    assert kept.newest[TopicPartition("orders", 0)].end == 5
    assert archive.ask(reverse(two), "savepoint") == kept
    back = maintenance.fill_mirror(reverse(two), back=True)
    assert (back.damaged, archive.read_archive(two).newest[TopicPartition("orders", 0)].end) == ((), 9)
    assert maintenance.fill_mirror(two).damaged == ()


def test_the_archive_comes_back_into_a_new_first_place_and_not_into_one_that_has_gone_on(two: RecoveryContext) -> None:
    look(two, ArchiveEvent.COPIED, 0, 5)
    maintenance.fill_mirror(two)
    for path in path_of(two, "golden/archive").iterdir():
        path.unlink()
    assert maintenance.fill_mirror(two).damaged[0].key == f"{two.layout.archive}000000000001.json", "only the second place has it"
    assert maintenance.fill_mirror(reverse(two), back=True).damaged == ()
    assert archive.read_archive(two).newest[TopicPartition("orders", 0)].end == 5
    look(two, ArchiveEvent.COPIED, 5, 6)
    look(two, ArchiveEvent.JOINED, 0, 6)
    archive.archive_log(two).prune(1)
    maintenance.fill_mirror(reverse(two), back=True)
    assert [path.stem for path in path_of(two, "golden/archive").iterdir()] == ["000000000003"]


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Each process asks a store before its first write: forget what this one has asked."""
    return lambda: monkeypatch.setattr("streams_recovery.storage.repository._asked", set())


def test_a_repository_moves_with_all_that_it_needs_and_nothing_is_written_to_the_old_place_any_more(
    two: RecoveryContext, second: Callable[[], RecoveryContext], new_process: Callable[[], None]
) -> None:
    third(two)
    logs(two)
    shutil.rmtree(path_of(two, two.layout.quiesce_records))
    look(two, ArchiveEvent.COPIED, 0, 5)
    checks = checked(two, "full").check_id
    maintenance.fill_mirror(two)
    odd = there(two) / f"golden/segments/{NEWEST}"
    whole = odd.read_bytes()
    odd.unlink()
    odd.write_bytes(whole[::-1])
    with pytest.raises(Damaged, match="with other bytes"):
        maintenance.move(two)
    assert two.lock.holder() is None
    assert not path_of(two, two.layout.moved).exists(), "a move that failed has marked nothing"
    odd.unlink()
    report = maintenance.move(two)
    assert (report.damaged, report.copied > 0, report.proven > 5) == ((), True, True)
    assert (there(two) / two.layout.check(checks)).is_dir()
    new = second()
    assert checked(new, "full").good
    assert archive.read_archive(new).exists
    new_process()
    for write in (
        lambda: two.lock.acquire("run", lease_seconds=60, purpose="a test"),
        lambda: maintenance.pin(two, FIRST, keep=True, requested_by="me", reason=""),
    ):
        with pytest.raises(Refused, match=r"has moved to .*second"):
            write()
    assert two.savepoints.read(THIRD).savepoint_id == THIRD, "it can be read"
    maintenance.pin(new, FIRST, keep=True, requested_by="me", reason="")
    before = files(there(two))
    for fill in (maintenance.plan_mirror, maintenance.fill_mirror):
        # The schedule of a configuration that was forgotten somewhere.
        with pytest.raises(Refused, match=r"has moved to .*second"):
            fill(two)
    assert files(there(two)) == before


def test_no_repository_moves_while_somebody_works_there(two: RecoveryContext) -> None:
    for lock in (two.lock, archive.archive_lock(two)):
        held = lock.acquire("a run", lease_seconds=60, purpose="a test")
        with pytest.raises(LockHeld, match="a run"):
            maintenance.move(two)
        lock.release(held)
    quiesce_record.begin(two, "run-1", QuiesceMode.PAUSE, ("one",))
    with pytest.raises(Refused, match="one may still be held by run run-1"):
        maintenance.move(two)
    quiesce_record.end(two)
    entry(two, Phase.OPENED, Phase.DESTROYING)
    with pytest.raises(Refused, match=RESTORE):
        maintenance.move(two)
    assert (files(there(two)) if there(two).exists() else {}) == {}
    assert two.lock.holder() is None


def test_a_mark_that_nobody_has_sealed_moves_no_sealed_repository(two: RecoveryContext, new_process: Callable[[], None]) -> None:
    private, public = new_private_key()
    sealed = Repository(two.config.storage.location, seal=SealKeys(public=(public,), private=private))
    path_of(two, two.layout.moved).parent.mkdir(parents=True)
    path_of(two, two.layout.moved).write_text('{"at":1,"to":"elsewhere"}')
    new_process()
    sealed.create(two.layout.detail("x"), b"{}")
    new_process()
    with pytest.raises(Refused, match="has moved to elsewhere"):
        two.repository.create(two.layout.detail("y"), b"{}")


def test_the_stored_status_carries_the_second_place_and_what_encrypts(two: RecoveryContext) -> None:
    maintenance.fill_mirror(two)
    third(two)
    refresh(two)
    known = newest(two.repository, two.layout)
    assert known is not None
    assert known.second_place == see_second_place(two)
    assert known.second_place is not None
    assert (known.second_place.alone, known.encryption) == ((THIRD,), None)


# Expiry in the second place


def aged(root: Path) -> None:
    """Let all that is there be a year old."""
    for path in root.rglob("*"):
        os.utime(path, (SECOND_AT / 1000 - 366 * 86_400,) * 2)


@pytest.fixture
def expiring(golden: OpenGolden, tmp_path: Path) -> RecoveryContext:
    """A repository, of which one savepoint is kept by the rules, with a second place that has all of it."""
    two = with_mirror(golden("good", now=SECOND_AT), tmp_path / "second")
    maintenance.fill_mirror(two)
    aged(there(two))
    return two


def orphan(root: Path, name: str) -> None:
    """A file that nothing names, and that is as old as all the others."""
    segment = next(iter(sorted(root.rglob("*golden.parquet"))))
    segment.with_name(f"{name}-{segment.name}").write_bytes(segment.read_bytes())
    aged(root)


def test_in_the_second_place_goes_what_no_rule_keeps_once_the_first_one_does_not_have_it_and_nothing_else(
    expiring: RecoveryContext, golden: OpenGolden
) -> None:
    away = reverse(expiring)
    for root in (there(expiring), path_of(expiring, "")):
        orphan(root, "both")
    plan = maintenance.plan_expiry(away)
    assert {one.savepoint_id: one.why_kept for one in plan.keep} == {SECOND: ("last", "minimum"), FIRST: ("the first place has it",)}
    assert (plan.expire, plan.files, plan.second_place) == ((), (), str(away.repository.location))
    assert plan.hash != maintenance.plan_expiry(expiring).hash
    assert "In the second place" in maintenance.expiry_text(plan)
    assert maintenance.expire(away, "early").expired == ()

    once = maintenance.expire(expiring, "r")
    assert (once.expired, once.files_removed) == ((FIRST,), 1)
    planned = maintenance.plan_expiry(away)
    assert [one.savepoint_id for one in planned.expire] == [FIRST]
    late = maintenance.expire(away, "late", approved=planned.hash)
    assert (late.expired, late.files_removed, late.left) == ((FIRST,), 1, ())
    aged(there(expiring))
    assert maintenance.plan_expiry(away).forget == (), "the first place would say of it again"
    aged(path_of(expiring, ""))
    assert maintenance.expire(expiring, "r2").plan.forget == (FIRST,)
    assert maintenance.expire(away, "last").plan.forget == (FIRST,)
    assert maintenance.fill_mirror(expiring).copied == 0, "nothing comes again"
    assert maintenance.plan_expiry(away).parts == {name: [] if isinstance(found, list) else () for name, found in planned.parts.items()}
    for place in (expiring, golden("good", place="second", now=SECOND_AT)):
        assert place.savepoints.ids() == [SECOND]
        assert checked(place, "full").good
    assert see_second_place(expiring) is not None


def test_what_the_first_place_has_stays_in_the_second_one_whatever_names_it(expiring: RecoveryContext) -> None:
    for root, name in ((there(expiring), "both"), (path_of(expiring, ""), "both"), (there(expiring), "one")):
        orphan(root, name)
    both, one = (expiring.layout.wrapped_key(f"k{made:08x}00000000", 1) for made in (1, 2))
    for root, key in ((there(expiring), both), (path_of(expiring, ""), both), (there(expiring), one)):
        (root / key).parent.mkdir(parents=True)
        (root / key).write_bytes(b"{}")
        aged(root)
    plan = maintenance.plan_expiry(reverse(expiring))
    assert [Path(key).name.split("-")[0] for key in plan.files] == ["one"]
    assert [file.key for file in plan.leftovers.keys] == [one]


@pytest.mark.parametrize("wrong", ["another repository", "no mark", "never filled", "no savepoints", "gone", "moved"])
def test_nothing_is_removed_in_a_second_place_that_the_first_one_does_not_know_or_that_may_have_the_last_copies(
    expiring: RecoveryContext, wrong: str
) -> None:
    assert maintenance.expire(expiring, "r").expired == (FIRST,)
    away, first = reverse(expiring), path_of(expiring, "")
    mark = path_of(expiring, expiring.layout.repository_id)
    match wrong:
        case "another repository":
            mark.unlink()
            mark.write_text('{"repository": "0"}')
        case "no mark":
            mark.unlink()
            (there(expiring) / expiring.layout.repository_id).unlink()
        case "never filled":
            next(mark.parent.glob("filled-*")).unlink()
        case "no savepoints":
            shutil.rmtree(path_of(expiring, expiring.layout.savepoints))
        case "gone":
            first.rename(first.with_name("lost"))
        case "moved":
            path_of(expiring, expiring.layout.moved).parent.mkdir(parents=True)
            path_of(expiring, expiring.layout.moved).write_text('{"at":1,"to":"elsewhere"}')
    before = files(there(expiring))
    for step in (maintenance.plan_expiry, lambda found: maintenance.expire(found, "r2")):
        with pytest.raises(Refused):
            step(away)
    assert {key for key in before if "/locks/" not in key} == {key for key in files(there(expiring)) if "/locks/" not in key}
    assert first.exists() is (wrong != "gone"), "nothing is made there"
    assert away.lock.holder() is None
