"""Descriptions that Kafka Streams prints of the versions in ``Topologies.java``, kept so that comparing them needs no Java, and savepoints of each."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Final

from streams_recovery.core.names import internal_role
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rollout.compatibility import Compatibility, StoreFacts
from streams_recovery.core.rollout.described import DescribedTopology, described
from streams_recovery.core.rollout.topology_comparison import compare
from tests.support.examples.topologies import APPLICATION, saved

TEXTS: Final = Path(__file__).parents[2] / "data" / "topologies" / "described.txt"


@cache
def texts() -> dict[str, str]:
    """The description of each version, by its name."""
    parts = re.split(r"^=== (.*)\n", TEXTS.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def version(name: str) -> DescribedTopology:
    """A version, as it describes itself."""
    return described(texts()[name].encode())


def left_by(topology: DescribedTopology, *, matched: Collection[str] = ()) -> Manifest:
    """A savepoint of a version that has processed all of its input. ``matched`` are topics that its patterns match."""
    internal = {one for one in topology.read & topology.written if internal_role(f"{APPLICATION}-{one}", APPLICATION) is not None}
    inputs = sorted((topology.read - internal) | set(matched))
    return saved(dict.fromkeys(topology.homes, 2), inputs=dict.fromkeys(inputs, 2), repartitions=dict.fromkeys(sorted(internal), 2))


def judged(
    old: str | DescribedTopology, new: str | DescribedTopology, *, matched: Collection[str] = (), known: bool = True
) -> Compatibility:
    """Whether a version goes on with what another one has left. ``known``: the description of that one is there too."""
    before, after = (version(one) if isinstance(one, str) else one for one in (old, new))
    stores: dict[str, StoreFacts] = {}
    return compare(APPLICATION, left_by(before, matched=matched), after, stores, before=before if known else None)
