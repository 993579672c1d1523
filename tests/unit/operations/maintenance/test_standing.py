"""What each reader does with a record, by who vouches for it: sealed, without a seal, by a key that was withdrawn, by a key that nobody knows, unreadable."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, EntryUnreadable, Forged
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.ownership import OwnershipEntry, Role, role_of
from streams_recovery.core.repository.retention import Pin
from streams_recovery.core.repository.seal import SealKeys, Standing, Weight
from streams_recovery.core.topic_holds.log import HoldEntry, HoldPurpose, TopicHold
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.maintenance.contents import holdings
from streams_recovery.operations.unfinished import pin_log, pins_of
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import new_private_key
from tests.support.repository.state_repository import FIRST, MINIMAL, SECOND, environment, fill

LAYOUT = Layout("shop")
(CURRENT, CURRENT_PUBLIC), (OLD, OLD_PUBLIC), (STRANGE, STRANGE_PUBLIC) = new_private_key(), new_private_key(), new_private_key()
WRITERS = {
    "sealed": SealKeys(public=(CURRENT_PUBLIC,), private=CURRENT),
    "unsealed": None,
    "withdrawn": SealKeys(public=(OLD_PUBLIC,), private=OLD),
    "strange": SealKeys(public=(STRANGE_PUBLIC,), private=STRANGE),
    "unreadable": SealKeys(public=(CURRENT_PUBLIC,), private=CURRENT),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed repository with nothing but savepoints, each by the current key."""
    directory = tmp_path_factory.mktemp("filled")
    fill(directory)
    (directory / "seal.key").write_text(CURRENT)
    (directory / "seal.key").chmod(0o600)
    config = yaml.safe_load((directory / "shop.yaml").read_text())
    config["storage"]["seal"] = {"public_keys": [CURRENT_PUBLIC], "withdrawn_keys": [OLD_PUBLIC], "key_file": "seal.key"}
    (directory / "shop.yaml").write_text(json.dumps(config))
    plain, writer = at(directory, None), at(directory, WRITERS["sealed"])
    for prefix in (LAYOUT.savepoints, LAYOUT.published_prefix, "shop/details/"):
        for key in plain.keys(prefix):
            content = plain.get(key)
            plain.delete([key])
            writer.create(key, content)
    return directory


@pytest.fixture
def place(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "place"))


def at(directory: Path, keys: SealKeys | None) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")), seal=keys)


def opened(directory: Path):
    return open_context(load_named("shop", directory, {}), EnvironmentConnections(environment()))


def marked(*, keep: bool) -> Pin:
    return Pin(savepoint_id=FIRST, keep=keep, at=1, requested_by="me", reason="because", restore_id=None)


def held(kind: str, *, clear: bool) -> HoldEntry:
    topics = (TopicHold(topic="t", topic_id="i"),) if not clear else ()
    return HoldEntry(kind=kind, purpose=HoldPurpose.COPY, run="r", at=1, mark=1, topics=topics, clear=clear)  # type: ignore[arg-type]


def owner(role: Role) -> OwnershipEntry:
    return OwnershipEntry(role=role, other="other", run="r", at=1, offsets={}, again={}, tail={})


@dataclass(frozen=True)
class Kind:
    """A kind of entry. ``before`` is written by the current key, ``entry`` by whom the column says; ``seen`` is what the product makes of both."""

    prefix: str
    before: tuple[object, ...]
    entry: object
    seen: Callable[[RecoveryContext], object]


def pins(recovery: RecoveryContext) -> object:
    return FIRST in pins_of(recovery).kept()


def holds(recovery: RecoveryContext) -> object:
    return len(topic_holds.outstanding(recovery))


def role(recovery: RecoveryContext) -> object:
    return role_of(recovery.ownership.last(), is_clone=True)


KINDS = {
    "a pin that keeps": Kind(LAYOUT.pins, (), marked(keep=True), pins),
    "a pin that is released": Kind(LAYOUT.pins, (marked(keep=True),), marked(keep=False), pins),
    "a hold that begins": Kind(LAYOUT.holds, (), held("applied", clear=False), holds),
    "a hold that ends": Kind(LAYOUT.holds, (held("applied", clear=False),), held("released", clear=True), holds),
    "retired": Kind(LAYOUT.ownership, (owner(Role.LIVE),), owner(Role.RETIRED), role),
    "live": Kind(LAYOUT.ownership, (), owner(Role.LIVE), role),
}
# What restricts counts without a proof; what permits needs one. A strange seal is nobody's.
TABLE = {
    #                          sealed         unsealed       withdrawn      strange        unreadable
    "a pin that keeps": (True, True, True, False, EntryUnreadable),
    "a pin that is released": (False, True, True, True, EntryUnreadable),
    "a hold that begins": (1, 1, 1, 0, 0),
    "a hold that ends": (0, 1, 1, 1, 1),
    "retired": (Role.RETIRED, Role.RETIRED, Role.RETIRED, Role.LIVE, EntryUnreadable),
    "live": (Role.LIVE, Role.STANDBY, Role.STANDBY, Role.STANDBY, EntryUnreadable),
}


def test_the_table_has_every_standing() -> None:
    assert {one.value for one in Standing} | {"unreadable"} == set(WRITERS)
    assert {one.value: one.weight for one in Standing} == {
        "sealed": Weight.PERMITS,
        "unsealed": Weight.RESTRICTS,
        "withdrawn": Weight.RESTRICTS,
        "strange": Weight.NOTHING,
    }


@pytest.mark.fault("F78")
@pytest.mark.parametrize("column", range(len(WRITERS)), ids=list(WRITERS))
@pytest.mark.parametrize("name", list(TABLE))
def test_an_entry_counts_for_what_it_restricts_and_permits_by_who_vouches_for_it(place: Path, name: str, column: int) -> None:
    kind, standing, expected = KINDS[name], list(WRITERS)[column], TABLE[name][column]
    for one in kind.before:
        AppendLog(at(place, WRITERS["sealed"]), kind.prefix, type(one)).append(one)
    seal = at(place, None).unchecked(f"{kind.prefix}{1:012}.json").seal if kind.before else None
    content = b"nothing" if standing == "unreadable" else codec.dumps(kind.entry)
    at(place, WRITERS[standing]).create(f"{kind.prefix}{len(kind.before) + 1:012}.json", content, previous=seal and seal.signature)
    with opened(place) as recovery:
        if isinstance(expected, type):
            with pytest.raises(expected):
                kind.seen(recovery)
        else:
            assert kind.seen(recovery) == expected


MANIFESTS = {
    # Whether it is read as a savepoint, and whether expiry removes what only it names.
    "sealed": (None, False),
    "unsealed": (Forged, True),
    "withdrawn": (Forged, True),
    "strange": (Forged, True),
    "unreadable": (Damaged, False),
}


@pytest.mark.fault("F78")
@pytest.mark.parametrize("standing", list(MANIFESTS))
def test_a_manifest_is_used_by_who_vouches_for_it_and_what_it_names_always_stays(place: Path, standing: str) -> None:
    error, unproven = MANIFESTS[standing]
    plain = at(place, None)
    content = plain.get(LAYOUT.manifest(SECOND))
    with opened(place) as recovery:
        tables = {
            recovery.layout.range_table(topic.name, ref.sha256)
            for topic in recovery.savepoints.outline(SECOND).topics
            for ref in topic.tables
        }
    plain.delete([LAYOUT.manifest(SECOND), LAYOUT.published(SECOND), LAYOUT.manifest(FIRST), LAYOUT.published(FIRST)])
    at(place, WRITERS[standing]).create(LAYOUT.manifest(SECOND), b"nothing" if standing == "unreadable" else content)
    with opened(place) as recovery:
        found = holdings(recovery)
        assert bool(found.unproven.records) is unproven
        # Either its own tables stay, or all do.
        assert found.unreadable or not tables & {file.key for file in found.unnamed()}
        assert bool(found.unreadable) is (standing == "unreadable")
        assert (SECOND in {one.savepoint_id for one in found.savepoints}) is (error is None)
        if error is None:
            recovery.savepoints.outline(SECOND)
        else:
            with pytest.raises(error):
                recovery.savepoints.outline(SECOND)
        assert MINIMAL in {one.savepoint_id for one in found.savepoints}


def keys(current: int, withdrawn: tuple[int, ...] = (), believed: tuple[int, ...] = ()) -> SealKeys:
    pairs = ((OLD, OLD_PUBLIC), (STRANGE, STRANGE_PUBLIC), (CURRENT, CURRENT_PUBLIC))
    public = tuple(pairs[one][1] for one in sorted({current, *believed}))
    return SealKeys(public=public, withdrawn=tuple(pairs[one][1] for one in withdrawn), private=pairs[current][0])


def log(directory: Path, keys: SealKeys) -> AppendLog[Pin]:
    return AppendLog(at(directory, keys), LAYOUT.pins, Pin, restricts=lambda mark: mark.keep)


@pytest.mark.fault("F78")
def test_three_keys_one_after_the_other_and_the_one_between_is_withdrawn(tmp_path: Path) -> None:
    for current, believed, keep in ((0, (), True), (1, (0,), True), (1, (0,), False), (2, (0, 1), True)):
        log(tmp_path, keys(current, believed=believed)).append(marked(keep=keep))
    read = log(tmp_path, keys(2, withdrawn=(1,), believed=(0,)))
    assert [one.keep for one in read.read_all()] == [True, True, True], "the release by the key that was withdrawn does not count"
    assert read.append(marked(keep=False)) == 5
    assert [one.keep for one in read.read_all()] == [True, True, True, False]
    # Whoever only removed the key is told what to add.
    with pytest.raises(Damaged, match="is not believed: it is sealed with the key") as found:
        log(tmp_path, keys(2, believed=(0,))).read_all()
    assert "add it to storage.seal.withdrawn_keys" in found.value.next_step
    # And what was written meanwhile is read once it is.
    assert [one.keep for one in log(tmp_path, keys(2, withdrawn=(0, 1))).read_all()] == [True, True, True, False]


@pytest.mark.fault("F78")
def test_a_writer_that_did_not_know_the_key_as_withdrawn_leaves_a_log_that_is_read(tmp_path: Path) -> None:
    log(tmp_path, keys(0)).append(marked(keep=True))
    log(tmp_path, keys(1, believed=(0,))).append(marked(keep=True))
    log(tmp_path, keys(2, believed=(0,))).append(marked(keep=False))
    assert [one.keep for one in log(tmp_path, keys(2, withdrawn=(1,), believed=(0,))).read_all()] == [True, True, False]


@pytest.mark.fault("F78")
def test_an_entry_that_was_taken_out_beside_a_withdrawn_key_is_noticed(tmp_path: Path) -> None:
    for current, believed in ((0, ()), (0, ()), (1, (0,)), (1, (0,)), (0, (1,))):
        log(tmp_path, keys(current, believed=believed)).append(marked(keep=True))
    read = log(tmp_path, keys(0, withdrawn=(1,)))
    assert len(read.read_all()) == 5
    for number in (2, 3):
        key = f"{LAYOUT.pins}{number:012}.json"
        content = (tmp_path / "repository" / key).read_bytes()
        (tmp_path / "repository" / key).write_bytes(b"{}")
        with pytest.raises(Damaged, match="entries between the two were removed"):
            log(tmp_path, keys(0, withdrawn=(1,))).read_all()
        (tmp_path / "repository" / key).write_bytes(content)


def test_the_log_of_pins_of_the_product_is_one_of_these(place: Path) -> None:
    with opened(place) as recovery:
        assert pin_log(recovery).read_all() == []
