"""A look into the second place of a repository: what is there, and whether the first one is lost. Needs no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.archive.log import ArchiveEntry
from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused, RepositoryUnavailable
from streams_recovery.core.repository.encryption import EncryptionState
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import HolderProcess
from streams_recovery.core.repository.mirror import SecondPlace, Where, second_place
from streams_recovery.core.words import command
from streams_recovery.operations.context import ConnectionSource, RecoveryContext, open_context
from streams_recovery.operations.ownership import Applications
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.archive_logs import archive_entries
from streams_recovery.storage.conditional_put import CredentialsExpired, NoBucket, Retries
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

# A store that never answers holds up no look for longer than about ten seconds.
_PATIENCE: Final = Retries(attempts=2, request_seconds=5.0)
# Newest entries of an archive that may all be questions to an archiver.
_ENTRIES: Final = 50


@contextmanager
def open_at(
    config: ApplicationConfig,
    connections: ConnectionSource,
    place: Where | None = None,
    *,
    applications: Applications,
    process: HolderProcess | None = None,
    site: str | None = None,
    anew: bool = False,
) -> Iterator[RecoveryContext]:
    """``open_context`` with the repository at ``place``, by default the first one: where that one does not answer, the error names the commands that read
    the second one. Raises ``ConfigInvalid`` without a second one.
    """

    def turned_round() -> dict[str, ApplicationConfig]:
        return {name: one if one.storage.second_place is None else one.from_second_place for name, one in applications().items()}

    here, known = (config, applications) if place is None else (config.from_second_place, turned_round)
    try:
        with open_context(here, connections, process=process, applications=known, site=site, anew=anew) as recovery:
            yield recovery
    except RepositoryUnavailable as error:
        if place is not None or config.storage.second_place is None:
            raise
        more = command("savepoints", "list", config.name, "--from", "mirror"), command("restore", config.name, "--from", "mirror", "--plan")
        raise error.then(*error.commands, *more) from None


def lost_if_turned_round(recovery: RecoveryContext, source: str = "") -> str:
    """Why the first place counts as lost where the second one is used in its stead, else empty. Raises as ``require_lost`` does."""
    return require_lost(recovery, source) if recovery.config.storage.is_turned_round else ""


def require_lost(recovery: RecoveryContext, source: str = "") -> str:
    """Why the first place, which is the second one of this context, counts as lost, for the person who goes on without it. Raises ``Refused`` where it
    answers and has savepoints, of the application or of the ``source`` that a restore begins from, or safety savepoints: what a restore writes down has to be
    in one place, and all that comes later goes by it. Raises ``ConfigInvalid`` where only this shell does not get in: others may be writing there.
    """
    configured = recovery.config.storage.second_place
    place = str(configured and configured.location)
    try:
        found = _looked_into(recovery, Retries(attempts=2))
        where = recovery.layout, recovery.layout.safety, *([Layout(source)] if source else [])
        ids = [] if found is None else [one for layout in where for one in SavepointStore(found, layout).ids()]
        why = "has no savepoints" if is_there(recovery) else "is not there"
    except NoBucket:
        return _lost(place, "does not exist: the store says that there is no such bucket")
    except (ConfigInvalid, CredentialsExpired, NotFound) as error:
        raise ConfigInvalid(
            f"whether the first place {place} is lost is not known, this shell does not get in: {error.reason}",
            next_step="give this shell the first place's connection, or take the first place out of the configuration: write the keys of the second "
            "place into storage, and leave mirror out",
            place=place,
        ) from error
    except RepositoryUnavailable as error:
        return _lost(place, f"does not answer ({error.reason})")
    if ids:
        raise Refused(
            f"the repository of {source or recovery.application_id} is not lost: {place} answers and has {len(ids)} savepoints",
            next_step="restore from it; what it has lost is put back from the second place by the command below",
            place=place,
        ).then(command("mirror", recovery.config.name, "--from", "mirror", "--full"))
    return _lost(place, why)


def _lost(place: str, why: str) -> str:
    return f"the first place {place} {why}: nobody else may use it meanwhile"


def see_second_place(recovery: RecoveryContext) -> SecondPlace | None:
    """Which savepoints are in two places at this moment; None without a second one. One that does not answer is no error here."""
    configured = recovery.config.storage.second_place
    if configured is None:
        return None
    try:
        other = _looked_into(recovery, _PATIENCE)
        logs = [None if one is None else archive_entries(one, recovery.layout) for one in (recovery.repository, other)]
        newest = [0 if log is None else next(log.numbered_back(), (0, None))[0] for log in logs]
        return second_place(
            str(configured.location),
            recovery.savepoints.ids(),
            [] if other is None else SavepointStore(other, recovery.layout).ids(),
            entries=max(0, newest[0] - newest[1]),
            archived_at=None if logs[1] is None else _archived_at(logs[1]),
        )
    except RecoveryError as error:
        return SecondPlace(place=str(configured.location), problem=error.reason)


def see_encryption(recovery: RecoveryContext) -> EncryptionState | None:
    """The keys of the records at this moment; None where records are in clear, and always were."""
    keyring, section = recovery.repository.keyring, recovery.config.storage.encryption
    if keyring is not None:
        return keyring.state(recovery.application_id)
    if section is not None and section.enabled:
        # Who only looks is given no key.
        return None
    earlier = sum(1 for _ in recovery.repository.directories(recovery.layout.keys))
    problem = (
        f"records are stored in clear, and earlier ones are encrypted (data keys: {earlier}): storage.encryption is missing or switched off"
    )
    return EncryptionState(keys=earlier, wrapped_by=(), problems=(problem,)) if earlier else None


def _archived_at(log: AppendLog[ArchiveEntry]) -> int | None:
    """Up to which moment all is archived, by the newest entries: words of those who ask an archiver say nothing of it."""
    return next((entry.safe_at for entry in islice(log.read_back(), _ENTRIES) if entry.safe_at is not None), None)


def _looked_into(recovery: RecoveryContext, patience: Retries) -> Repository | None:
    """The second place, None for a directory that is not there, which is not made."""
    found = recovery.config.storage.second_place
    if found is None or not is_there(recovery):
        return None
    keys = recovery.connections.storage(found.connection, found.backend) if found.backend != "filesystem" else None
    seals = recovery.repository.seals
    return Repository(found.location, keys, patience, seal=None if seals is None else seals.keys, encryption=recovery.repository.encryption)


def is_there(recovery: RecoveryContext) -> bool:
    """False for a directory that does not exist. A bucket answers for itself."""
    found = recovery.config.storage.second_place
    return found is not None and (found.backend != "filesystem" or Path(str(found.path)).is_dir())
