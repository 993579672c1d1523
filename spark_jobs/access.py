"""The access of a job to the cluster and the repository. Secrets come from a file that only its owner can read, never from arguments."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streams_recovery.core import codec
from streams_recovery.core.compaction.values import CompactSpec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import BackupSpec
from streams_recovery.core.repository.check import CheckSpec
from streams_recovery.core.repository.encryption import DataKeys, KeyAccess, KeyPlace, needed_keys
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.rescale.moved import RescaleSpec
from streams_recovery.core.savepoint.writers import LoadedEntry
from streams_recovery.core.state.inspection import StateSpec
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.loaded_log import newest_loads
from streams_recovery.storage.repository import Repository

SECRETS_FILE = "STREAMS_RECOVERY_SECRETS_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccess:
    """The access of one job. It travels to the tasks inside their closure, secrets included; Spark shows closures to nobody. It has no connection for jobs that
    have nothing to do with the cluster.
    """

    connection: KafkaConnection | None
    location: StorageLocation
    credentials: StorageCredentials | None
    seal: SealKeys | None = None
    encryption: KeyAccess | DataKeys | None = None

    @classmethod
    def from_environment(cls, repository: str, environment: Mapping[str, str] = os.environ) -> JobAccess:
        """``repository`` is a ``StorageLocation`` as JSON; the rest is in the file that ``STREAMS_RECOVERY_SECRETS_FILE`` names.

        Raises ``ConfigInvalid`` when the file is missing, readable by others, or not what the submitter writes.
        """
        location = codec.loads(StorageLocation, repository.encode(), where="--repository")
        secrets = _read_secrets(environment)
        try:
            kafka, credentials, seal, places = secrets["kafka"], secrets["storage"], secrets["seal"], secrets["encryption"]
            return cls(
                connection=None if kafka is None else KafkaConnection(**kafka),
                location=location,
                credentials=None if credentials is None else StorageCredentials(**credentials),
                seal=None if seal is None else SealKeys(**{**seal, "public": tuple(seal["public"]), "withdrawn": tuple(seal["withdrawn"])}),
                encryption=None if places is None else KeyAccess(places=tuple(KeyPlace(**one) for one in places)),
            )
        except (KeyError, TypeError) as error:
            # Not "from error": its text could quote what is in the file.
            raise ConfigInvalid(
                f"{environment[SECRETS_FILE]} is no secrets file: {type(error).__name__}", next_step="submit the job again"
            ) from None

    @property
    def cluster(self) -> KafkaConnection:
        """The connection to the cluster. Raises ``ConfigInvalid`` for a job that was given no connection."""
        if self.connection is None:
            raise ConfigInvalid("this job was submitted without a Kafka connection", next_step="submit it with streams_recovery.engine")
        return self.connection

    def repository(self) -> Repository:
        """A repository of this process's own."""
        return Repository(self.location, self.credentials, seal=self.seal, encryption=self.encryption)

    def for_tasks(self, spec: object) -> JobAccess:
        """The same with the data keys that ``spec`` needs in place of the key-encryption keys: those do not leave the driver. Raises ``KeyUnavailable``,
        except for a check, which tells of the files.
        """
        repository, needed = self.repository(), needed_keys(spec)
        if not isinstance(spec, CheckSpec):
            repository.require_keys(needed)
        if (keyring := repository.keyring) is None:
            return self
        # A table that goes elsewhere is in clear: whoever reads it there has no keys.
        stores = isinstance(spec, (BackupSpec, CompactSpec, RescaleSpec)) or (isinstance(spec, StateSpec) and spec.directory is None)
        writes = str(getattr(spec, "application_id", "")) if stores else None
        return replace(self, encryption=keyring.unwrapped(needed, writes))

    def loads(self, application_id: str) -> tuple[LoadedEntry, ...]:
        """What the newest restores of an application have recorded of the logs that they loaded, newest first."""
        return newest_loads(self.repository(), Layout(application_id))


def _read_secrets(environment: Mapping[str, str]) -> dict[str, Any]:
    name = environment.get(SECRETS_FILE)
    if not name:
        raise ConfigInvalid(f"{SECRETS_FILE} is not set", next_step="submit the job with streams_recovery.engine.spark_submit")
    path = Path(name)
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigInvalid(f"{path} can be read by others", next_step="give it mode 0600", path=name)
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"{path} cannot be read: {type(error).__name__}", next_step="submit the job again", path=name) from None
    return plain if isinstance(plain, dict) else {}
