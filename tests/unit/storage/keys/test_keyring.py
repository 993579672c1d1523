"""Data keys of a repository: made, found again, wrapped again, and refused where they do not belong."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.access import JobAccess
from streams_recovery.core.errors import ConfigInvalid, Damaged, Forged, KeyUnavailable, Refused
from streams_recovery.core.jobs.spec import PartitionToLoad, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.check import CheckSpec, FileToCheck
from streams_recovery.core.repository.encryption import DataKey, DataKeys, KeyAccess, KeyPlace, named_key, needed_keys
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.repository.segment_file import SegmentFile, SegmentFiles
from streams_recovery.storage.keys.keyring import Keyring
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import new_private_key

APP = "orders"
DAY = 86_400


def local() -> KeyPlace:
    """A new local key."""
    return KeyPlace(provider="local", address="", options={"secret": base64.b64encode(os.urandom(32)).decode()})


MINE, NEW = local(), local()


def ring(root: Path, *places: KeyPlace, now: float = 1_000_000.0, seal: SealKeys | None = None) -> Keyring:
    """What a new process has of the repository below ``root``."""
    return Keyring(Repository(StorageLocation(backend="filesystem", path=str(root)), seal=seal), KeyAccess(places=places), lambda: now)


def named(key: DataKey) -> str:
    return f"{APP}/segments/t/0/0-9-a.{key.key_id}.parquet"


def test_a_key_serves_for_a_day_in_all_processes_and_the_next_day_has_another(tmp_path: Path) -> None:
    first = ring(tmp_path, MINE).writing(APP)
    again = ring(tmp_path, MINE, now=1_000_000.0 + DAY - 1).writing(APP)
    assert (again, again.secret) == (first, first.secret)
    later = ring(tmp_path, MINE, now=1_000_000.0 + DAY)
    other = later.writing(APP)
    assert other.key_id > first.key_id
    assert other.secret != first.secret
    assert later.of(named(first)) == first
    assert later.of(f"{APP}/segments/t/0/0-9-a.parquet") is None
    assert ring(tmp_path, MINE).writing("payments").key_id != first.key_id


def test_nothing_that_is_stored_or_shown_has_the_key(tmp_path: Path) -> None:
    key = ring(tmp_path, MINE).writing(APP)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (key.secret, base64.b64decode(MINE.options["secret"])):
        for form in (secret, base64.b64encode(secret), secret.hex().encode()):
            assert form not in stored
            assert form.decode("latin-1") not in f"{key!r}{MINE!r}{KeyAccess(places=(MINE,))!r}{DataKeys(keys={(APP, key.key_id): key})}"


def test_a_task_gets_the_keys_it_needs_and_none_that_opens_others(tmp_path: Path) -> None:
    keys = ring(tmp_path, MINE)
    key, access = keys.writing(APP), KeyAccess(places=(MINE,))
    sent = pickle.dumps((access, keys.unwrapped((), APP)))
    assert MINE.options["secret"].encode() not in sent
    left, given = pickle.loads(sent)  # of this test
    assert left.places == ()
    assert given.of(named(key)) == given.writing(APP) == key


def test_rotation_wraps_again_and_leaves_what_was_wrapped(tmp_path: Path) -> None:
    keys = [ring(tmp_path, MINE, now=1_000_000.0 + DAY * day).writing(APP) for day in range(3)]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    both = ring(tmp_path, NEW, MINE)
    assert both.rotate(APP) == [key.key_id for key in keys]
    assert {path: path.read_bytes() for path in before} == before
    assert both.rotate(APP) == [], "all are wrapped by it already"
    for place in (MINE, NEW):
        assert [ring(tmp_path, place).of(named(key)) for key in keys] == keys, "the old one reads what it wrapped, too"
    assert {one.wrapped_by for one in ring(tmp_path, NEW).stored(APP)} == {ring(tmp_path, NEW).probe()[0]}


def test_a_rotation_that_cannot_unwrap_all_writes_nothing(tmp_path: Path) -> None:
    ring(tmp_path, MINE).writing(APP)
    ring(tmp_path, NEW, now=1_000_000.0 + DAY).writing(APP)
    before = sorted(tmp_path.rglob("*.json"))
    with pytest.raises(KeyUnavailable, match=r"is wrapped by local:[0-9a-f]{16}, none of storage.encryption.keys is that"):
        ring(tmp_path, local(), MINE).rotate(APP)
    assert sorted(tmp_path.rglob("*.json")) == before


def test_a_missing_key_says_where_it_was_looked_for(tmp_path: Path) -> None:
    key = ring(tmp_path, MINE).writing(APP)
    gone = KeyPlace(provider="local", address="", missing="connection kek has no password")
    with pytest.raises(KeyUnavailable, match=r"wrapped by local:\w+, .*connection kek has no password"):
        ring(tmp_path, gone).of(named(key))
    with pytest.raises(KeyUnavailable, match="connection kek has no password"):
        ring(tmp_path, gone).writing(APP)
    assert [one.problem[:25] for one in ring(tmp_path, gone).stored(APP)] == ["the data key " + key.key_id[:12]]


def test_a_key_of_another_application_or_of_another_name_is_refused(tmp_path: Path) -> None:
    key = ring(tmp_path, MINE).writing(APP)
    # Copied as it is: its content says whose it is.
    shutil.copytree(tmp_path / APP / "keys", tmp_path / "payments" / "keys")
    with pytest.raises(Damaged, match=f"is the key {key.key_id} of {APP}"):
        ring(tmp_path, MINE).of(named(key).replace(APP, "payments"))
    # Made to say that it belongs there: what was wrapped says that it does not.
    path = tmp_path / "payments" / "keys" / key.key_id / "000000000001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"application_id": "payments"}))
    with pytest.raises(Damaged, match="was wrapped for another application"):
        ring(tmp_path, MINE).of(named(key).replace(APP, "payments"))


def test_a_newer_wrap_that_is_none_does_not_hide_the_good_one(tmp_path: Path) -> None:
    key = ring(tmp_path, MINE).writing(APP)
    first = tmp_path / APP / "keys" / key.key_id / "000000000001.json"
    for number, text in (
        (2, "no JSON"),
        (3, json.dumps(json.loads(first.read_text()) | {"wrapped": "####"})),
        (5, json.dumps(json.loads(first.read_text()) | {"wrapped": "\u00e9"})),
        (4, json.dumps(json.loads(first.read_text()) | {"wrapped": base64.b64encode(os.urandom(92)).decode()})),
    ):
        first.with_name(f"{number:012}.json").write_text(text)
    assert ring(tmp_path, MINE).of(named(key)) == ring(tmp_path, MINE).writing(APP) == key
    first.unlink()
    with pytest.raises((KeyUnavailable, Damaged), match=r"has not wrapped this|not base64"):
        ring(tmp_path, MINE).of(named(key))
    shutil.rmtree(first.parent)
    with pytest.raises(Damaged, match="has no key, and records are encrypted with it"):
        ring(tmp_path, MINE).of(named(key))


def test_in_a_sealed_repository_a_key_without_a_seal_is_used_by_nobody(tmp_path: Path) -> None:
    forged = ring(tmp_path, MINE).writing(APP)
    private, public = new_private_key()
    seal = SealKeys(public=(public,), private=private)
    with pytest.raises(Forged):
        ring(tmp_path, MINE, seal=seal).of(named(forged))
    own = ring(tmp_path, MINE, seal=seal).writing(APP)
    assert own.key_id != forged.key_id
    assert ring(tmp_path, MINE, seal=SealKeys(public=(public,))).of(named(own)) == own


def test_what_a_job_needs_is_in_its_specification() -> None:
    def file(key: str) -> SegmentFile:
        numbers = dict.fromkeys(("bytes", "last_offset", "min_timestamp", "max_timestamp", "payload_bytes", "largest_record"), 9)
        return SegmentFile(key=key, sha256="0" * 64, rows=1, first_offset=0, **numbers)

    files = SegmentFiles.of([file("a/segments/t/0/x.k0000000000000001.parquet"), file("a/segments/t/0/x.parquet")])
    part = PartitionToLoad(tp=TopicPartition("t", 0), first_offset=0, files=files)
    spec = RestoreSpec(application_id="b", partitions=(part,))
    assert needed_keys(spec) == {("a", "k0000000000000001")}
    assert needed_keys([file("b/tables/s/t/r/part-0.k0000000000000002.parquet")]) == {("b", "k0000000000000002")}


def test_the_key_of_a_file_is_told_by_the_end_of_its_name() -> None:
    topic = f"{APP}/segments/a.k0000000000000001.parquet/0/0-9-x"
    assert named_key(f"{topic}.k0000000000000002.parquet") == (APP, "k0000000000000002")
    assert named_key(f"{topic}.parquet") is None


def test_a_job_without_keys_is_refused_before_its_tasks_but_a_check_tells_of_each_file(tmp_path: Path) -> None:
    numbers = dict.fromkeys(("bytes", "last_offset", "min_timestamp", "max_timestamp", "payload_bytes", "largest_record"), 9)
    file = SegmentFile(key=f"{APP}/segments/t/0/x.k0000000000000001.parquet", sha256="0" * 64, rows=1, first_offset=0, **numbers)
    part = PartitionToLoad(tp=TopicPartition("t", 0), first_offset=0, files=SegmentFiles.of([file]))
    place = StorageLocation(backend="filesystem", path=str(tmp_path))
    access = JobAccess(connection=None, location=place, credentials=None)
    with pytest.raises(KeyUnavailable, match=r"k0000000000000001 .*storage.encryption has no keys, or is switched off"):
        access.for_tasks(RestoreSpec(application_id=APP, partitions=(part,)))
    wanted = FileToCheck(tp=part.tp, start=0, end=9, file=file, savepoints=())
    assert access.for_tasks(CheckSpec(application_id=APP, files=(wanted,))) == access
    assert access.for_tasks(RestoreSpec(application_id=APP, partitions=())) == access


def test_a_file_in_clear_is_not_stored_where_records_are_encrypted(tmp_path: Path) -> None:
    place = StorageLocation(backend="filesystem", path=str(tmp_path / "r"))
    clear, encrypted = Repository(place), Repository(place, encryption=KeyAccess(places=(MINE,)))
    (tmp_path / "clear").write_bytes(b"PAR1 and so on PAR1")
    for repository, name in ((clear, "a.k0000000000000001"), (encrypted, "a.k0000000000000001"), (encrypted, "a")):
        with pytest.raises(Refused, match="is not encrypted as it has to be"):
            repository.put_file(f"{APP}/segments/t/0/0-9-{name}.parquet", tmp_path / "clear")
    assert list(clear.keys("")) == []
    # A second place gets what there is, as it is.
    for repository in (clear, encrypted.without_seals()):
        repository.put_file(f"{APP}/segments/t/0/0-9-{id(repository)}.parquet", tmp_path / "clear")
    (tmp_path / "clear").write_bytes(b"PARE and so on PARE")
    encrypted.put_file(f"{APP}/segments/t/0/0-9-b.k0000000000000001.parquet", tmp_path / "clear")


@pytest.mark.parametrize("secret", ["", "short", base64.b64encode(b"x" * 31).decode(), "#" * 44])
def test_a_local_key_that_is_none_is_refused_without_a_word_of_it(tmp_path: Path, secret: str) -> None:
    place = KeyPlace(provider="local", address="", options={"secret": secret})
    with pytest.raises(ConfigInvalid, match="not 32 bytes in base64") as caught:
        ring(tmp_path, place).writing(APP)
    assert not secret or secret not in str(caught.value)


# A key of the second place

ELSEWHERE = replace(local(), mirror=True)


def test_a_data_key_is_wrapped_for_the_second_place_too_and_that_key_alone_opens_it(tmp_path: Path) -> None:
    first = ring(tmp_path, MINE, ELSEWHERE)
    key = first.writing(APP)
    assert ring(tmp_path, ELSEWHERE).of(named(key)) == ring(tmp_path, MINE).of(named(key)) == key
    assert ring(tmp_path, MINE, ELSEWHERE).writing(APP) == key, "today's goes on"
    assert ring(tmp_path, ELSEWHERE, MINE).writing(APP) == key, "there too, where it is the first one"
    (stored,) = first.stored(APP)
    assert stored.second == first.second.name != stored.wrapped_by  # type: ignore[union-attr]
    state = first.state(APP)
    assert (state.wrapped_by, state.second, state.second_problem, state.problems) == ((stored.wrapped_by,), stored.second, "", ())
    assert str(state).endswith(f"wrapped by {stored.wrapped_by}, and by {stored.second} for the second place")
    assert first.rotate(APP) == first.complete(APP) == []


def test_without_the_key_of_the_second_place_a_savepoint_is_taken_and_what_lacks_is_told_and_made_up_for(tmp_path: Path) -> None:
    gone = replace(ELSEWHERE, missing="no such file")
    alone = ring(tmp_path, MINE, gone)
    key = alone.writing(APP)
    state = alone.state(APP)
    assert "no such file" in state.second_problem
    assert (state.keys, state.problems, alone.has_second) == (1, (), True), "it takes nothing from the first place"
    assert alone.second_problem() is not None
    both = ring(tmp_path, MINE, ELSEWHERE)
    assert str(both.state(APP)).endswith(" for the second place: it has not wrapped 1 of them")
    with pytest.raises(KeyUnavailable):
        ring(tmp_path, ELSEWHERE).of(named(key))
    assert both.complete(APP) == [key.key_id]
    assert ring(tmp_path, ELSEWHERE).of(named(key)) == key


def test_rotation_takes_both_keys_and_each_alone(tmp_path: Path) -> None:
    key, other = ring(tmp_path, MINE, ELSEWHERE).writing(APP), replace(local(), mirror=True)
    assert ring(tmp_path, NEW, ELSEWHERE, MINE).rotate(APP) == [key.key_id]
    assert len(list(tmp_path.rglob("*.json"))) == 3, "that of the second place has it"
    assert ring(tmp_path, NEW, other, MINE, ELSEWHERE).rotate(APP) == [key.key_id]
    assert len(list(tmp_path.rglob("*.json"))) == 4
    assert ring(tmp_path, NEW).of(named(key)) == ring(tmp_path, other).of(named(key)) == key


def test_in_place_of_the_first_one_the_key_of_the_second_place_writes(tmp_path: Path) -> None:
    gone = replace(MINE, missing="the service is gone")
    key = ring(tmp_path, ELSEWHERE, gone).writing(APP)
    assert ring(tmp_path, ELSEWHERE).of(named(key)) == key
    new = ring(tmp_path, NEW, ELSEWHERE)
    assert new.rotate(APP) == [key.key_id]
    assert ring(tmp_path, NEW).of(named(key)) == key


def test_a_data_key_that_somebody_has_wrapped_with_another_key_is_not_written_with(tmp_path: Path) -> None:
    """Who may create objects, and has the public key of a service that has one."""
    stranger = ring(tmp_path, ELSEWHERE).writing(APP)
    (stored,) = tmp_path.rglob("*.json")
    mine = ring(tmp_path / "elsewhere", MINE)
    mine.writing(APP)
    claimed = json.loads(stored.read_text()) | {"wrapped_by": mine.probe()[0], "wrapped": base64.b64encode(bytes(60)).decode()}
    stored.with_name("000000000002.json").write_text(json.dumps(claimed))
    for places in ((MINE, ELSEWHERE), (MINE, replace(ELSEWHERE, mirror=False))):
        keys = ring(tmp_path, *places)
        assert keys.of(named(stranger)) == stranger, "it can be read"
        assert keys.writing(APP) != stranger


def test_one_key_for_both_places_is_the_first_ones(tmp_path: Path) -> None:
    both = MINE, replace(MINE, mirror=True)
    key = ring(tmp_path, *both).writing(APP)
    assert ring(tmp_path, *both).writing(APP) == key


# Forms that somebody else has written


def planted(root: Path, key: DataKey, number: int, by: str) -> None:
    """A form that says it is wrapped by this key-encryption key, and is not."""
    first = root / APP / "keys" / key.key_id / "000000000001.json"
    claimed = {"wrapped_by": by, "wrapped": base64.b64encode(os.urandom(92)).decode()}
    first.with_name(f"{number:012}.json").write_text(json.dumps(json.loads(first.read_text()) | claimed))


def test_a_rotation_goes_by_what_the_new_key_opens_and_not_by_what_a_form_says(tmp_path: Path) -> None:
    key = ring(tmp_path, MINE, ELSEWHERE).writing(APP)
    other = replace(local(), mirror=True)
    for number, place in ((7, NEW), (8, other)):
        planted(tmp_path, key, number, ring(tmp_path, place).probe()[0])
    both = ring(tmp_path, NEW, other, MINE, ELSEWHERE)
    assert both.rotate(APP) == [key.key_id]
    assert ring(tmp_path, NEW).of(named(key)) == ring(tmp_path, other).of(named(key)) == key
    assert both.rotate(APP) == []


def test_a_form_behind_which_none_can_come_stops_a_rotation(tmp_path: Path) -> None:
    key = ring(tmp_path, MINE).writing(APP)
    planted(tmp_path, key, 999_999_999_999, "nobody")
    with pytest.raises(Damaged, match=r"no form of a data key can come behind orders/keys/\w+/999999999999.json"):
        ring(tmp_path, NEW, MINE).rotate(APP)


def test_what_cannot_be_unwrapped_keeps_the_key_of_the_second_place_from_nothing_else(tmp_path: Path) -> None:
    lost = ring(tmp_path, local()).writing(APP)
    key = ring(tmp_path, MINE, now=1_000_000.0 + DAY).writing(APP)
    with pytest.raises(KeyUnavailable, match=lost.key_id):
        ring(tmp_path, MINE, ELSEWHERE).complete(APP)
    assert ring(tmp_path, ELSEWHERE).of(named(key)) == key


def test_a_quick_look_asks_for_each_set_of_keys_that_has_wrapped(tmp_path: Path) -> None:
    """What another key has wrapped too says nothing of what only the lost one has."""
    lost = ring(tmp_path, MINE).writing(APP)
    key = ring(tmp_path, MINE, ELSEWHERE, now=1_000_000.0 + DAY).writing(APP)
    left = ring(tmp_path, NEW, ELSEWHERE)
    assert [bool(one.problem) for one in left.stored(APP, each=False)] == [True, False]
    assert left.of(named(key)) == key
    with pytest.raises(KeyUnavailable):
        left.of(named(lost))
