"""A manifest of a cut by the names of transactions: its own format, and only such numbers as a cut can have. All others stay as they were, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut, NamedProof
from streams_recovery.core.named_transactions.readings import Name
from streams_recovery.core.repository import stored_manifest
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.project import GOLDEN
from tests.support.repository.golden import NAMED
from tests.support.repository.stored import stored

TP = TopicPartition("orders-store-changelog", 0)
OUT = Excluded(producer_id=7, epoch=12, first=3, last=5, records=2, aborted=False)
LOG = NamedLogCut(start=2, end=10, records=4, excluded=(OUT,))
NAMES = NamedProof(group=TopicPartition("__consumer_offsets", 3), group_end=90, last=(Name(7, 11),), taken_back=(), logs={TP: LOG})


def named(names: NamedProof = NAMES) -> Manifest:
    found = manifest_with(partition([copied(0, 10)], [], end=10))
    proof = replace(found.proof, names=names)
    return replace(found, format_version=proof.format_version, proof=proof)


def test_it_is_read_as_it_was_written_and_has_a_format_of_its_own() -> None:
    found = stored(named())
    assert (found.format_version, found.proof.names) == (9, NAMES)
    assert NAMES.left_out == 2
    aborted = replace(LOG, excluded=(replace(OUT, aborted=True, epoch=11),))
    assert stored(named(replace(NAMES, logs={TP: aborted}))).proof.names.left_out == 0  # type: ignore[union-attr]


def test_all_others_are_written_as_before() -> None:
    plain = codec.encode(manifest_with(partition([copied(0, 10)], [], end=10)))
    assert plain["format_version"] == 8
    assert "names" not in plain["proof"]


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.update(format_version=8),
        lambda plain: plain["proof"].pop("names"),
        lambda plain: plain["proof"].update(names=None),
        lambda plain: plain["proof"]["names"].pop("last"),
    ],
)
def test_a_format_that_does_not_fit_its_proof_is_damage(change: Callable[[dict[str, Any]], object]) -> None:
    plain = codec.encode(named())
    change(plain)
    with pytest.raises(Damaged):
        stored_manifest.read(json.dumps(plain).encode(), where="manifest")


@pytest.mark.parametrize(
    "names",
    [
        replace(NAMES, group_end=-1),
        replace(NAMES, last=(Name(7, 11), Name(7, 10))),
        replace(NAMES, last=(Name(7, 12),)),
        replace(NAMES, last=()),
        replace(NAMES, logs={TopicPartition("other", 0): LOG}),
        *(
            replace(NAMES, logs={TP: replace(LOG, **changed)})
            for changed in (
                {"start": -1},
                {"start": 4},
                {"end": 11},
                {"end": 5},
                {"records": 9},
                {"records": -1},
                {"excluded": (OUT, OUT)},
                {"excluded": (replace(OUT, records=4),)},
                {"excluded": (replace(OUT, records=0),)},
                {"excluded": (replace(OUT, last=2, records=1),)},
                {"excluded": (replace(OUT, producer_id=-1),)},
            )
        ),
    ],
)
def test_numbers_that_no_cut_has_are_damage(names: NamedProof) -> None:
    with pytest.raises(Damaged, match="names of transactions"):
        stored(named(names))


def test_the_golden_one_is_read() -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(GOLDEN / "named")))
    found = SavepointStore(repository, Layout("golden")).read(NAMED)
    assert found.proof.names is not None
    assert (found.format_version, found.proof.names.left_out, found.proof.held_seconds) == (9, 2, 0.0)
    assert [file.rows for topic in found.topics for part in topic.partitions for file in part.files()] == [30, 13, 2, 3]
