"""Compatibility of a new version with a savepoint: reads the savepoint's manifest and a description, and asks no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streams_recovery.application.command import run_program
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rollout.compatibility import Compatibility, StoreFacts
from streams_recovery.core.rollout.described import MOST_BYTES, DescribedTopology, described
from streams_recovery.core.rollout.topology_comparison import compare
from streams_recovery.core.words import LATEST
from streams_recovery.operations.context import RecoveryContext


def compatibility(
    recovery: RecoveryContext, new: DescribedTopology, *, savepoint: str = LATEST, before: DescribedTopology | None = None
) -> Compatibility:
    """Compare a savepoint's content with the version that ``new`` describes. The configuration is that of the new version. Raises ``ConfigInvalid`` for an
    application that has no such description, and ``NotFound``.
    """
    manifest = newest_savepoint(recovery) if savepoint == LATEST else recovery.savepoints.outline(savepoint)
    return compared(recovery, manifest, new, before=before)


def compared(
    recovery: RecoveryContext, manifest: Manifest, new: DescribedTopology, *, before: DescribedTopology | None = None
) -> Compatibility:
    """Compare a savepoint that was read: its outline is enough. Raises ``ConfigInvalid``."""
    config = recovery.config
    if not config.dialect.prefixed:
        raise ConfigInvalid(
            f"{recovery.application_id} is an application of {config.dialect.product}: nothing describes a version of it as Topology#describe() does",
            next_step="compare the code: a table that has another name, key or value is another table",
        )
    return compare(
        recovery.application_id,
        manifest,
        new,
        store_facts(recovery),
        before=before,
    )


def store_facts(recovery: RecoveryContext) -> dict[str, StoreFacts]:
    """What the configuration says of each store."""
    config = recovery.config
    return {
        name: StoreFacts(kind=config.store_kind(name), logged=store.logged, source=store.source) for name, store in config.stores.items()
    }


def newest_savepoint(recovery: RecoveryContext) -> Manifest:
    """The outline of the newest savepoint. Raises ``NotFound``."""
    found = recovery.savepoints.latest(read=recovery.savepoints.outline)
    if found is None:
        raise NotFound(
            f"{recovery.application_id} has no savepoint in {recovery.repository.location}",
            next_step="take one of the running version first: without one there is nothing to compare with",
        )
    return found


def described_by_program(recovery: RecoveryContext) -> DescribedTopology:
    """The topology that the configured program prints. Raises ``ConfigInvalid`` where none is configured, and as running a program does."""
    command = recovery.config.application.topology_command
    if command is None:
        raise ConfigInvalid(
            f"nothing describes the new version of {recovery.application_id}",
            next_step="hand its description over with --topology, or set application.topology_command to a program that prints it",
        )
    return described_by(command, recovery.application_id)


def described_by(command: Sequence[str], application_id: str) -> DescribedTopology:
    """The topology that a program prints. Raises ``ConfigInvalid``, and as running a program does."""
    return described(run_program(list(command), {"APPLICATION_ID": application_id}, verb="describe the topology", seconds=120.0))


def described_in_file(path: Path) -> DescribedTopology:
    """The topology in a file. Raises ``ConfigInvalid``."""
    return described(_content(path))


def text_of_file(path: Path) -> str:
    """The text of a file with a description. Raises ``ConfigInvalid``."""
    data = _content(path)
    described(data)
    return data.decode()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # One byte more than there may be, so that a longer file is refused and not cut.
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error}", next_step="name a file with what Topology#describe() prints") from None
