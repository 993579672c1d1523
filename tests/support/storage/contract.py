"""What the contract of a repository is tried with on every kind of store."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.words import new_id
from streams_recovery.storage.repository import Repository
from tests.support.examples.manifests import manifest_with

OpenRepository = Callable[[], Repository]


LAYOUT = Layout("orders")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a log."""

    text: str


def savepoint(number: int, consistency: Consistency = Consistency.EXACT, run: str = "run") -> Manifest:
    """A manifest whose id sorts by its number."""
    return dataclasses.replace(manifest_with(), savepoint_id=new_id(1_800_000_000_000 + number * 1000, run), consistency=consistency)
