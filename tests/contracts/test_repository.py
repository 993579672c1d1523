"""What every kind of store must do alike."""

from __future__ import annotations

import dataclasses
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from embedded.stores.s3 import CREDENTIALS, S3Server
from streams_recovery.core import codec
from streams_recovery.core.errors import Altered, ConfigInvalid, Damaged, NotFound, RecoveryError, RepositoryUnavailable
from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.publication import publication
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.conditional_put import Retries
from streams_recovery.storage.credentials import access_key
from streams_recovery.storage.repository import AlreadyExists, Repository
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.storage.contract import LAYOUT, Entry, OpenRepository, savepoint


def test_bytes_come_back_as_they_were(open_repository: OpenRepository) -> None:
    data = bytes(range(256)) * 100
    open_repository().create("a/b.bin", data)
    assert open_repository().get("a/b.bin") == data
    assert open_repository().size("a/b.bin") == len(data)


def test_an_empty_object_is_not_an_absent_one(repository: Repository) -> None:
    repository.create("empty", b"")
    assert repository.get("empty") == b""
    assert repository.size("empty") == 0
    assert repository.size("absent") is None


def test_what_exists_is_never_replaced(repository: Repository, tmp_path: Path) -> None:
    repository.create("key", b"first")
    with pytest.raises(AlreadyExists, match="key"):
        repository.create("key", b"second")
    (tmp_path / "file").write_bytes(b"third")
    with pytest.raises(AlreadyExists, match="key"):
        repository.put_file("key", tmp_path / "file")
    assert repository.get("key") == b"first"


def test_of_many_creators_one_succeeds(open_repository: OpenRepository) -> None:
    def attempt(number: int) -> bool:
        try:
            open_repository().create("contested", b"%d" % number)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, success in enumerate(pool.map(attempt, range(16))) if success]
    assert len(won) == 1
    assert open_repository().get("contested") == b"%d" % won[0]


def test_absent_objects_are_named(repository: Repository) -> None:
    for use in (repository.get, repository.open):
        with pytest.raises(NotFound, match="no/such"):
            use("no/such")


@pytest.mark.fault("F12")
def test_keys_are_complete_sorted_and_only_those_below(repository: Repository) -> None:
    names = [f"list/{number:05}" for number in range(1_003)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: repository.create(name, b"x"), reversed(names)))
    repository.create("listed/other", b"x")
    assert list(repository.keys("list/")) == names
    assert list(repository.keys("nothing/")) == []


@pytest.mark.fault("F60")
@pytest.mark.parametrize("key", ["", "/absolute", "../up", "a/../../b", "a//b", "a/./b", "a\\b", "a/"])
def test_keys_cannot_leave_the_repository(repository: Repository, key: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for use in (
        lambda: repository.create(key, b"x"),
        lambda: repository.get(key),
        lambda: repository.size(key),
        lambda: repository.open(key),
        lambda: repository.delete([key]),
        lambda: repository.put_file(key, tmp_path / "file"),
    ):
        with pytest.raises(ConfigInvalid, match="no valid key"):
            use()
    assert list(repository.keys("")) == []


def test_files_arrive_whole(repository: Repository, tmp_path: Path) -> None:
    # More than the 5 MiB from which on an upload in parts would be chosen.
    content = bytes(range(251)) * 30_000
    (tmp_path / "file").write_bytes(content)
    repository.put_file("big", tmp_path / "file")
    assert repository.size("big") == len(content)
    assert repository.get("big") == content


def test_an_open_object_is_a_seekable_file(repository: Repository) -> None:
    repository.create("file", b"0123456789")
    with_position = repository.open("file")
    assert bytes(with_position.read(3)) == b"012"
    assert with_position.seek(-2, io.SEEK_END) == 8
    assert bytes(with_position.read()) == b"89"
    assert with_position.tell() == 10


def test_parquet_is_read_through_an_open_object(repository: Repository, tmp_path: Path) -> None:
    rows = pa.table({"offset": list(range(5_000)), "value": [b"v%d" % number if number % 7 else None for number in range(5_000)]})
    pq.write_table(rows, tmp_path / "rows", row_group_size=500)
    repository.put_file("rows.parquet", tmp_path / "rows")
    file = pq.ParquetFile(repository.open("rows.parquet"))
    assert file.read_row_group(3).column("offset")[0].as_py() == 1_500
    assert file.read().equals(rows)


def test_deleting_passes_over_what_is_gone(repository: Repository) -> None:
    repository.create("a", b"x")
    repository.create("b", b"x")
    repository.delete(["a", "never"])
    repository.delete(["a"])
    assert list(repository.keys("")) == ["b"]


def test_an_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    path = str(tmp_path / "file" / "repository")
    with pytest.raises(ConfigInvalid, match=path):
        Repository(StorageLocation(backend="filesystem", path=path)).create("a", b"x")


def test_a_store_that_does_not_answer_is_a_passing_failure() -> None:
    location = StorageLocation(backend="s3", bucket="b", endpoint="http://127.0.0.1:1", path_style=True, allow_http=True)
    with pytest.raises(RepositoryUnavailable) as caught:
        Repository(location, CREDENTIALS, Retries(attempts=2)).get("key")
    assert caught.value.facts == {"key": "key", "attempts": 2}
    assert CREDENTIALS.options["secret_access_key"] not in str(caught.value)
    assert CREDENTIALS.options["secret_access_key"] not in repr(CREDENTIALS)


@pytest.mark.fault("F61")
def test_wrong_credentials_are_refused_without_being_shown(s3: S3Server) -> None:
    wrong = access_key("test-access", "wrong-secret-canary")
    location = StorageLocation(backend="s3", bucket="some-bucket", endpoint=s3.endpoint, path_style=True, allow_http=True)
    with pytest.raises(RecoveryError) as caught:
        Repository(location, wrong).get("key")
    assert not isinstance(caught.value, RepositoryUnavailable)
    assert "wrong-secret-canary" not in f"{caught.value}{caught.value.facts}"


def test_a_log_keeps_the_order_of_its_writers(open_repository: OpenRepository) -> None:
    def write(number: int) -> int:
        return AppendLog(open_repository(), LAYOUT.holds, Entry).append(Entry(text=str(number)))

    with ThreadPoolExecutor(4) as pool:
        numbers = dict(zip(map(str, range(12)), pool.map(write, range(12)), strict=True))
    log = AppendLog(open_repository(), LAYOUT.holds, Entry)
    assert sorted(numbers.values()) == list(range(1, 13))
    assert [entry.text for entry in log.read_all()] == sorted(numbers, key=lambda text: numbers[text])
    assert log.last() == log.read_all()[-1]


def test_a_decision_is_made_again_on_the_entry_that_came_between(open_repository: OpenRepository) -> None:
    log, other = (AppendLog(open_repository(), LAYOUT.holds, Entry) for _ in range(2))
    seen: list[str | None] = []

    def decide(last: Entry | None, number: int) -> Entry:
        seen.append(last.text if last else None)
        if len(seen) == 1:
            other.append(Entry(text="faster"))
        return Entry(text=f"slower, {number}")

    assert log.append_after(decide) == 2
    assert seen == [None, "faster"]
    assert [entry.text for entry in log.read_all()] == ["faster", "slower, 2"]


def test_a_log_that_was_shortened_goes_on_with_its_numbers(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.holds, Entry)
    for text in "abcde":
        log.append(Entry(text=text))
    assert log.prune(2) == 3
    assert [entry.text for entry in log.read_all()] == ["d", "e"]
    assert log.append(Entry(text="f")) == 6
    assert log.prune(0) == 2
    assert [entry.text for entry in log.read_all()] == ["f"], "the newest entry always stays"
    assert log.append(Entry(text="g")) == 7


@pytest.mark.fault("F63")
def test_a_strange_object_in_a_log_is_passed_over(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.holds, Entry)
    repository.create(f"{LAYOUT.holds}notes.json", b"{}")
    assert log.append(Entry(text="a")) == 1
    assert [entry.text for entry in log.read_all()] == ["a"]


@pytest.mark.fault("F63")
def test_more_than_the_limit_is_not_read(repository: Repository) -> None:
    repository.create("large", b"x" * 100)
    assert repository.get("large", most_bytes=100) == b"x" * 100
    with pytest.raises(Damaged) as caught:
        repository.get("large", most_bytes=99)
    assert caught.value.facts == {"key": "large", "bytes": 100, "limit": 99}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("name", ["a\nb", "a\tb/c", "a\r", "ü/é", "a b", "x~y#z"])
def test_a_key_that_the_library_cannot_express_hides_nothing_in_a_bucket(s3: S3Server, name: str) -> None:
    location = s3.bucket()
    log = AppendLog(Repository(location, CREDENTIALS), LAYOUT.locks, Entry)
    log.append(Entry(text="a"))
    s3.client().put_object(Bucket=location.bucket, Key=f"{location.prefix}/{LAYOUT.locks}{name}", Body=b"x")
    assert log.append(Entry(text="b")) == 2
    assert [entry.text for entry in log.read_all()] == ["a", "b"]
    found = {file.key: file.bytes for file in Repository(location, CREDENTIALS).listed(LAYOUT.locks)}
    assert found[f"{LAYOUT.locks}000000000002.json"] == len(b'{"text":"b"}')


def test_a_log_with_a_hole_is_damaged(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.holds, Entry)
    for text in "abc":
        log.append(Entry(text=text))
    repository.delete([f"{LAYOUT.holds}000000000002.json"])
    with pytest.raises(Damaged, match="000000000003"):
        log.read_all()


def test_a_note_is_read_as_it_was_written_whatever_comes_beside_it(repository: Repository) -> None:
    notes = RunArtifacts(repository, LAYOUT)
    first = notes.write("run", "cut", Entry(text="first"))
    second = notes.write("run", "cut", Entry(text="second"))
    notes.write("run", "cutter", Entry(text="another name"))
    notes.write("run-2", "cut", Entry(text="another run"))
    assert [notes.read(Entry, ref) for ref in (first, second)] == [Entry(text="first"), Entry(text="second")]
    assert notes.answer(first.key, "copied") == LAYOUT.work("run", "copied.0001")
    repository.create(LAYOUT.work("run", "cut.0009"), b"somebody else's")
    third = notes.write("run", "cut", Entry(text="third"))
    assert notes.read(Entry, third) == Entry(text="third")
    with pytest.raises(Altered) as caught:
        notes.read(Entry, dataclasses.replace(third, key=LAYOUT.work("run", "cut.0009")))
    assert (caught.value.facts["key"], caught.value.facts["written"]) == (LAYOUT.work("run", "cut.0009"), third.sha256)


def test_a_note_that_is_written_once_is_the_first_one_and_any_other_is_told(repository: Repository) -> None:
    notes = RunArtifacts(repository, LAYOUT)
    with pytest.raises(NotFound, match="has left no note plan"):
        notes.read_once(Entry, "run", "plan")
    only = notes.write_once("run", "plan", Entry(text="approved"))
    notes.write("run", "planned", Entry(text="another name"))
    notes.refuse_others("run", "plan")
    with pytest.raises(Altered) as caught:
        notes.write_once("run", "plan", Entry(text="again"))
    assert caught.value.facts == {"key": only.key}
    forged = notes.write("run", "plan", Entry(text="forged"))
    assert notes.read_once(Entry, "run", "plan") == notes.read(Entry, only) == Entry(text="approved")
    with pytest.raises(Altered) as caught:
        notes.refuse_others("run", "plan")
    assert caught.value.facts == {"key": forged.key}


def test_a_savepoint_exists_once_published_and_stays_as_it_is(open_repository: OpenRepository) -> None:
    store = SavepointStore(open_repository(), LAYOUT)
    published = savepoint(1)
    store.publish(published)
    store.publish(published)
    with pytest.raises(Damaged, match=published.savepoint_id):
        store.publish(dataclasses.replace(published, cluster_id="another"))
    assert SavepointStore(open_repository(), LAYOUT).read(published.savepoint_id) == published


def test_savepoints_are_listed_by_time_and_found_by_label_and_run(repository: Repository) -> None:
    store = SavepointStore(repository, LAYOUT)
    assert store.latest() is None
    exact, ahead = savepoint(1), savepoint(2, Consistency.AHEAD, "other run")
    for published in (ahead, exact):
        store.publish(published)
    assert list(store.ids()) == [exact.savepoint_id, ahead.savepoint_id]
    assert store.latest() == ahead
    assert store.latest(Consistency.EXACT) == exact
    assert store.published_by_run("run") == exact.savepoint_id
    assert store.published_by_run("unknown run") is None


@pytest.mark.fault("F2")
def test_what_has_no_manifest_is_no_savepoint(repository: Repository) -> None:
    store = SavepointStore(repository, LAYOUT)
    store.publish(savepoint(1))
    begun = savepoint(2).savepoint_id
    repository.create(f"{LAYOUT.savepoints}{begun}/something", b"x")
    assert list(store.ids()) == [savepoint(1).savepoint_id]
    with pytest.raises(NotFound, match=f"{begun}.*newest: {savepoint(1).savepoint_id}") as caught:
        store.read(begun)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("stored", [b"", b"not zstd", zstandard.compress(b"{"), zstandard.compress(b"[]")])
def test_a_manifest_that_cannot_be_read_is_damaged(repository: Repository, stored: bytes) -> None:
    broken = savepoint(1).savepoint_id
    repository.create(LAYOUT.manifest(broken), stored)
    store = SavepointStore(repository, LAYOUT)
    with pytest.raises(Damaged, match=broken):
        store.read(broken)
    with pytest.raises(Damaged, match=broken):
        store.latest()


@pytest.mark.fault("F11")
def test_a_manifest_under_another_id_is_damaged(repository: Repository) -> None:
    store = SavepointStore(repository, LAYOUT)
    store.publish(savepoint(1))
    repository.create(LAYOUT.manifest(savepoint(2).savepoint_id), repository.get(LAYOUT.manifest(savepoint(1).savepoint_id)))
    with pytest.raises(Damaged, match=f"holds savepoint {savepoint(1).savepoint_id}"):
        store.read(savepoint(2).savepoint_id)
    expired = store.retire(savepoint(1).savepoint_id, at=5)
    assert store.retired_outline(savepoint(1).savepoint_id, expired) == savepoint(1)
    with pytest.raises(Damaged, match=f"holds savepoint {savepoint(1).savepoint_id}"):
        store.retired_outline(savepoint(2).savepoint_id, expired)


@pytest.mark.fault("F63")
def test_an_id_that_is_none_is_damage_and_the_error_about_it_is_short(repository: Repository) -> None:
    store, place, strange = SavepointStore(repository, LAYOUT), savepoint(1).savepoint_id, "x" * 10_000
    manifest = zstandard.compress(codec.dumps(dataclasses.replace(savepoint(1), savepoint_id=strange)))
    record = codec.dumps(dataclasses.replace(publication(savepoint(1), LAYOUT.manifest(place), manifest), savepoint_id=strange))
    for key, stored, read in (
        (LAYOUT.manifest(place), manifest, store.read),
        ("retired", manifest, lambda one: store.retired_outline(one, "retired")),
        (LAYOUT.published(place), record, store.publication),
    ):
        repository.create(key, stored)
        with pytest.raises(Damaged, match="is not an id") as refused:
            read(place)
        assert len(str(refused.value)) < 1_000
