"""Secrets on their way to a Spark driver: a file that only its owner can read, removed when the job has ended."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials


@contextmanager
def secrets_file(
    connection: KafkaConnection | None,
    credentials: StorageCredentials | None,
    seal: SealKeys | None = None,
    *,
    directory: Path | None = None,
) -> Iterator[Path]:
    """A new file (mode 0600) with what a job needs to connect; gone at the end of the block. ``directory`` defaults to the system's.

    The driver reads it on this machine, so the deploy mode must be client, and removes it then. A submitter that is killed before that leaves it
    behind, readable by its owner only.
    """
    kafka = None if connection is None else {"bootstrap_servers": connection.bootstrap_servers, "properties": dict(connection.properties)}
    content = {
        "kafka": kafka,
        "storage": None if credentials is None else dataclasses.asdict(credentials),
        "seal": None if seal is None else dataclasses.asdict(seal),
    }
    handle, name = tempfile.mkstemp(prefix="streams-recovery-", suffix=".secrets", dir=directory)  # mkstemp makes it 0600
    path = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(content, file)
        yield path
    finally:
        path.unlink(missing_ok=True)
