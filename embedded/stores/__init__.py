"""Stores that the stack can keep its savepoints in: servers of this machine that are spoken to as a cloud's are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FILES: Final = "files"
KINDS: Final = (FILES, "s3", "gcs", "azure")
_CONNECTION: Final = "savepoint_store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A running one: the keys of ``storage``, and the variables that have its credentials."""

    section: Mapping[str, Any]
    variables: Mapping[str, str]


@contextmanager
def store(kind: str, directory: Path) -> Iterator[Store | None]:
    """A server with a new bucket, below ``directory``, for as long as the block lasts; None for ``files``. Raises ``NotInstalled`` where it cannot be had."""
    if kind == FILES:
        yield None
        return
    start, connection = _server(kind)
    directory.mkdir(parents=True)
    with start(directory) as server:
        found = {name: value for name, value in asdict(server.bucket()).items() if value not in (None, "")}
        yield Store(section={**found, "connection": _CONNECTION}, variables={f"AIRFLOW_CONN_{_CONNECTION.upper()}": json.dumps(connection)})


def _server(kind: str) -> tuple[Callable[[Path], AbstractContextManager[Any]], Mapping[str, Any]]:
    """What starts it, and the connection that has its key."""
    # Amazon's client alone takes half a second, and most stacks keep files.
    from embedded.stores import azure, google, s3  # noqa: PLC0415

    key = s3.CREDENTIALS.options
    amazon = {"conn_type": "aws", "login": key["access_key_id"], "password": key["secret_access_key"]}
    servers: dict[str, tuple[Callable[[Path], AbstractContextManager[Any]], Mapping[str, Any]]] = {
        "s3": (s3.s3_server, amazon),
        "gcs": (google.google_server, {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": google.KEY}}),
        "azure": (azure.azure_server, {"conn_type": "wasb", "password": azure.KEY}),
    }
    return servers[kind]
