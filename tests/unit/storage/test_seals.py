"""A sealed repository: every kind of stored record forged, moved, replayed and cut, and what that changes, which is nothing."""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import zstandard

from spark_jobs.access import JobAccess
from streams_recovery.core.errors import ConfigInvalid, Damaged, Forged
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.retention import Pin
from streams_recovery.core.repository.seal import Adoption, SealKeys, carries_seal
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.json_object import create_value
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from streams_recovery.storage.seals import new_private_key, public_of
from tests.support.project import GOLDEN, PROJECT
from tests.support.repository.golden import FIRST, SECOND

PRIVATE, PUBLIC = new_private_key()
STRANGER, STRANGERS_PUBLIC = new_private_key()
KEYS = SealKeys(public=(PUBLIC,), private=PRIVATE)
ID = "20261121T000000Z-0000000001"
NAMES = {"application id": "golden", "savepoint id": ID, "run": "run", "restore id": ID, "check id": ID, "snapshot id": ID, "topic": "t"}


def repository(path: Path, keys: SealKeys | None = KEYS) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(path)), seal=keys)


def kinds() -> list[str]:
    """Each line of the tree in docs/format.md, with an example's names in it."""
    page = (PROJECT / "docs/format.md").read_text()
    tree = page.split("## Tree")[1].split("```")[1].strip().splitlines()
    assert tree[0] == "{application id}/"
    return [example(line.strip(), 1) for line in tree[1:]]


def example(line: str, number: int) -> str:
    digits = re.sub(r"\{[^{}]*, ([0-9]+) digits\}", lambda found: f"{number:0{found[1]}}", line)
    names = re.sub(r"\{([^{}]+)\}", lambda found: NAMES.get(found[1], "x"), digits)
    return f"golden/{names}"


def sibling(key: str) -> str:
    """Another key of the same kind: the next number, or another name."""
    numbers = re.findall(r"[0-9]{4,}(?=\.)", key)
    return (
        key.replace(numbers[-1], f"{int(numbers[-1]) + 1:0{len(numbers[-1])}}")
        if numbers
        else key.replace(ID, f"{ID[:-1]}2").replace("/x", "/y")
    )


SEALED = [key for key in kinds() if carries_seal(key)]
UNSEALED = {key.split("/")[1] if "progress" not in key else "progress" for key in kinds() if not carries_seal(key)}


def test_all_kinds_of_records_are_sealed_but_these():
    # Segments, tables of ranges and the page of a report are named by hash in what is sealed; nothing is decided by the others.
    assert {"ranges", "segments", "restores", "progress", "tables", "probe", "places"} == UNSEALED
    assert [key for key in kinds() if not carries_seal(key) and "/restores/" in key] == [f"golden/restores/{ID}/report.md"]
    assert len(SEALED) > 20


def content_of(key: str) -> bytes:
    plain = json.dumps({"key": key, "at": 1}).encode()
    return zstandard.compress(plain) if key.endswith(".zst") else plain


def put(root: Path, key: str, data: bytes) -> None:
    (root / key).parent.mkdir(parents=True, exist_ok=True)
    (root / key).write_bytes(data)


@pytest.mark.parametrize("key", SEALED)
def test_a_record_of_any_kind_is_believed_only_as_it_was_sealed(tmp_path, key):
    store = repository(tmp_path)
    store.create(key, content_of(key))
    good = (tmp_path / key).read_bytes()
    assert store.get(key) == content_of(key)
    assert repository(tmp_path, None).get(key) == content_of(key)
    refused = []
    # Forged: without a seal, by a stranger's key, under the right key's name, with another content.
    repository(tmp_path / "forged", SealKeys(public=(STRANGERS_PUBLIC,), private=STRANGER)).create(key, content_of(key))
    strangers = (tmp_path / "forged" / key).read_bytes()
    named = strangers.replace(re.findall(rb'"key_id":"(.*?)"', strangers)[0], re.findall(rb'"key_id":"(.*?)"', good)[0])
    flipped = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(0, len(good), 5)]
    # Cut, also where the seal begins.
    cuts = [good[:at] for at in [*range(0, len(good), 7), len(content_of(key))]]
    for number, data in enumerate([content_of(key), strangers, named, *flipped, *cuts]):
        put(tmp_path / f"{number}", key, data)
        with pytest.raises(Forged) as error:
            repository(tmp_path / f"{number}").get(key)
        refused.append(error.value.facts["key"])
    # Moved to every kind, its own as well: for a log that is a replay.
    # The mark of a move is the only one of its kind.
    for other in {*SEALED, sibling(key)} - {key}:
        put(tmp_path / "moved", other, good)
        with pytest.raises(Forged) as error:
            repository(tmp_path / "moved").get(other)
        refused.append(error.value.facts["key"])
    assert set(refused) == {key, *SEALED, sibling(key)}


@dataclass(frozen=True)
class Sealed:
    """A sealed copy of the golden repository."""

    path: Path
    store: Repository

    @property
    def layout(self) -> Layout:
        return Layout("golden")

    @property
    def pins(self) -> AppendLog[Pin]:
        return AppendLog(repository(self.path), self.layout.pins, Pin)

    @property
    def savepoints(self) -> SavepointStore:
        return SavepointStore(repository(self.path), self.layout)


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    plain, path = GOLDEN / "good", tmp_path / "sealed"
    store = repository(path)
    for file in sorted(one for one in plain.rglob("*") if one.is_file()):
        key = str(file.relative_to(plain))
        if carries_seal(key):
            store.create(key, file.read_bytes())
        else:
            (path / key).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, path / key)
    return Sealed(path, store)


def pin(savepoint_id: str, *, keep: bool) -> Pin:
    return Pin(savepoint_id=savepoint_id, keep=keep, at=1, requested_by="me", reason="because", restore_id=None)


def test_a_forged_entry_takes_a_number_and_is_nothing_else(sealed, caplog):
    sealed.pins.append(pin(FIRST, keep=True))
    forged = json.dumps({**json.loads(json.dumps(vars_of(pin(FIRST, keep=False))))}).encode()
    for number in (2, 3, 900):
        put(sealed.path, f"{sealed.layout.pins}{number:012}.json", forged)
    assert sealed.pins.read_all() == [pin(FIRST, keep=True)]
    assert f"{sealed.layout.pins}{900:012}.json is passed over" in caplog.text
    # Nobody has to remove anything before the next entry.
    assert sealed.pins.append(pin(SECOND, keep=True)) == 4
    assert sealed.pins.append_after(lambda last, number: pin(last.savepoint_id, keep=number == 5)) == 5
    assert sealed.pins.read_all() == [pin(FIRST, keep=True), pin(SECOND, keep=True), pin(SECOND, keep=True)]


def vars_of(value: Pin) -> dict[str, object]:
    return {name: getattr(value, name) for name in ("savepoint_id", "keep", "at", "requested_by", "reason", "restore_id")}


def test_forged_entries_push_none_that_counts_out_of_a_log(sealed):
    for keep in (True, False, True):
        sealed.pins.append(pin(FIRST, keep=keep))
    for number in range(4, 8):
        put(sealed.path, f"{sealed.layout.pins}{number:012}.json", b"{}")
    assert sealed.pins.prune(2) == 1
    assert [one.keep for one in sealed.pins.read_all()] == [False, True]


def test_an_entry_taken_out_of_a_log_is_noticed(sealed):
    for keep in (True, False, True):
        sealed.pins.append(pin(FIRST, keep=keep))
    # Whoever may delete removes the second, and puts something in its place so that no number is missing.
    put(sealed.path, f"{sealed.layout.pins}{2:012}.json", b"{}")
    with pytest.raises(Damaged, match="entries between the two were removed") as found:
        sealed.pins.read_all()
    assert found.value.facts["key"] == f"{sealed.layout.pins}{3:012}.json"


def test_a_lock_that_is_forged_is_nobodys(sealed):
    def lock() -> ApplicationLock:
        return ApplicationLock(repository(sealed.path), sealed.layout, lambda: 1_000)

    held = lock().acquire("me", lease_seconds=60, purpose="a savepoint")
    put(sealed.path, f"{sealed.layout.locks}{2:012}.json", b"")
    assert lock().holds(held)
    lock().release(held)
    assert lock().holder() is None


def test_a_forged_savepoint_is_never_the_newest(sealed):
    before = sealed.savepoints.latest()
    # Of one that is ahead of the clock nobody would ask whose it is.
    later = f"{SECOND.partition('-')[0]}-ffffffffff"
    source = (sealed.path / sealed.layout.manifest(SECOND)).read_bytes()
    put(sealed.path, sealed.layout.manifest(later), source)
    assert sealed.savepoints.latest() == before
    assert next(sealed.savepoints.newest_first()) == before
    assert isinstance(sealed.savepoints.summaries()[later], Forged)
    with pytest.raises(Forged):
        sealed.savepoints.read(later)
    assert sealed.savepoints.published_by_run("any") is None


def test_a_record_that_somebody_put_where_a_savepoint_is_published_does_not_stop_it(sealed, caplog):
    manifest = sealed.savepoints.read(SECOND)
    (sealed.path / sealed.layout.manifest(SECOND)).unlink()
    (sealed.path / sealed.layout.published(SECOND)).unlink(missing_ok=True)
    put(sealed.path, sealed.layout.published(SECOND), b"{}")
    sealed.savepoints.publish(manifest)
    assert sealed.savepoints.read(SECOND) == manifest
    assert f"savepoint {SECOND} has no record" in caplog.text
    assert not isinstance(sealed.savepoints.summaries()[SECOND], Damaged)


def test_without_a_private_key_everything_can_be_read_and_nothing_written(sealed):
    reader = repository(sealed.path, SealKeys(public=(PUBLIC,), missing="connection seal does not exist"))
    assert SavepointStore(reader, sealed.layout).latest() is not None
    with pytest.raises(ConfigInvalid, match="connection seal does not exist"):
        create_value(reader, f"{sealed.layout.pins}{1:012}.json", pin(FIRST, keep=True))
    assert not (sealed.path / sealed.layout.pins).exists()


def test_the_private_key_does_not_travel_to_tasks_which_believe_as_before(sealed):
    sent = pickle.dumps(
        JobAccess(connection=None, location=StorageLocation(backend="filesystem", path=str(sealed.path)), credentials=None, seal=KEYS)
    )
    assert PRIVATE.encode() not in sent
    there = pickle.loads(sent).repository()
    assert SavepointStore(there, sealed.layout).latest() is not None
    with pytest.raises(ConfigInvalid, match="tasks of Spark are not given it"):
        create_value(there, f"{sealed.layout.pins}{1:012}.json", pin(FIRST, keep=True))
    put(sealed.path, f"{sealed.layout.pins}{1:012}.json", b"{}")
    with pytest.raises(Forged):
        there.get(f"{sealed.layout.pins}{1:012}.json")


def test_nobody_signs_with_a_key_that_no_reader_believes(sealed):
    wrong = repository(sealed.path, SealKeys(public=(PUBLIC,), private=STRANGER))
    with pytest.raises(ConfigInvalid, match=re.escape(STRANGERS_PUBLIC)):
        wrong.create("golden/pins/000000000001.json", b"{}")


def test_a_new_key_beside_the_old_one_and_the_old_one_gone(sealed):
    sealed.pins.append(pin(FIRST, keep=True))
    both = SealKeys(public=(PUBLIC, STRANGERS_PUBLIC), private=STRANGER)
    AppendLog(repository(sealed.path, both), sealed.layout.pins, Pin).append(pin(FIRST, keep=False))
    assert [one.keep for one in AppendLog(repository(sealed.path, both), sealed.layout.pins, Pin).read_all()] == [True, False]
    assert [one.keep for one in sealed.pins.read_all()] == [True]
    assert public_of(STRANGER) == STRANGERS_PUBLIC


def test_an_older_record_is_believed_once_it_was_adopted_and_only_as_it_was(tmp_path):
    key, plain = f"golden/pins/{1:012}.json", json.dumps(vars_of(pin(FIRST, keep=True))).encode()
    repository(tmp_path, None).create(key, plain)
    with pytest.raises(Forged, match="has no seal"):
        repository(tmp_path).get(key)
    found = repository(tmp_path).unchecked(key)
    adopted = Adoption(at=1, requested_by="me", reason="older", records={key: hashlib.sha256(found.content).hexdigest()})
    log = AppendLog(repository(tmp_path), "golden/adopted/", Adoption)
    assert log.append(adopted) == 1
    pins = AppendLog(repository(tmp_path), "golden/pins/", Pin)
    assert pins.read_all() == [pin(FIRST, keep=True)]
    pins.append(pin(FIRST, keep=False))
    assert [one.keep for one in pins.read_all()] == [True, False]
    (tmp_path / key).write_bytes(plain.replace(b"because", b"become."))
    with pytest.raises(Forged):
        repository(tmp_path).get(key)
    # Nobody adopts who may not sign.
    put(
        tmp_path,
        f"golden/adopted/{2:012}.json",
        json.dumps({"at": 1, "requested_by": "x", "reason": "x", "records": {key: "0" * 64}}).encode(),
    )
    assert replace(adopted, at=1).records == AppendLog(repository(tmp_path), "golden/adopted/", Adoption).read_all()[0].records


def test_the_first_entry_is_the_first_that_counts_whatever_is_put_before_it(sealed):
    prefix = sealed.layout.pins
    put(sealed.path, f"{prefix}{1:012}.json", json.dumps(vars_of(pin(SECOND, keep=False))).encode())
    assert sealed.pins.first() is None
    assert sealed.pins.append(pin(FIRST, keep=True)) == 2
    sealed.pins.append(pin(FIRST, keep=False))
    for number, data in ((4, b"{}"), (7, b"no JSON")):
        put(sealed.path, f"{prefix}{number:012}.json", data)
    assert sealed.pins.first() == pin(FIRST, keep=True)
    # A copy of a later entry is none of that place.
    put(sealed.path, f"{prefix}{1:012}.json", (sealed.path / f"{prefix}{3:012}.json").read_bytes())
    assert sealed.pins.first() == pin(FIRST, keep=True)
    # Whoever has no seals goes by the numbers.
    assert AppendLog(repository(sealed.path, None), prefix, Pin).first() == pin(FIRST, keep=False)


def test_a_forged_copy_of_a_manifest_says_of_no_savepoint_that_it_has_expired(sealed, caplog):
    kept = sealed.savepoints.retire(FIRST, at=1)
    forged = sealed.layout.retired(SECOND, 2)
    put(sealed.path, forged, (sealed.path / sealed.layout.manifest(SECOND)).read_bytes())
    put(sealed.path, sealed.layout.retired(FIRST, 9), (sealed.path / kept).read_bytes())
    assert {name: [file.key for file in files] for name, files in sealed.savepoints.copies().items()} == {FIRST: [kept]}
    assert f"{forged} is passed over" in caplog.text
    # The savepoint is lost then, and a check says so: nothing lets it pass for expired.
    (sealed.path / sealed.layout.manifest(SECOND)).unlink()
    assert SECOND not in sealed.savepoints.copies()
    unsealed = SavepointStore(repository(sealed.path, None), sealed.layout)
    assert set(unsealed.copies()) == {FIRST, SECOND}


def test_a_forged_record_that_was_asked_for_is_remembered_by_its_key(sealed):
    store = repository(sealed.path)
    put(sealed.path, sealed.layout.detail(FIRST), b"{}")
    with pytest.raises(Forged):
        store.get(sealed.layout.detail(FIRST))
    store.get(sealed.layout.manifest(FIRST))
    assert store.forged == {sealed.layout.detail(FIRST): "it has no seal"}
