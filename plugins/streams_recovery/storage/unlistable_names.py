"""Listing what the object-store library cannot list: below names that it has no key for, it gives up the whole listing.

A file name that is not UTF-8, a line break in a key, a link to its own directory: one such object would keep every run from finding its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from botocore import exceptions as boto_exceptions

from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.repository.retention import StoredFile
from streams_recovery.storage.amazon import amazon_client, unavailable
from streams_recovery.storage.credentials import StorageCredentials

LOGGER = logger("streams_recovery.storage")

# Every key of ours is made of names on the allow-list.
_KEY: Final = re.compile(r"(?!(.*/)?\.\.?(/|$))[a-zA-Z0-9._-]+(/[a-zA-Z0-9._-]+)*")
_MILLISECONDS: Final = 1_000


def listed_without_them(location: StorageLocation, credentials: StorageCredentials | None, prefix: str) -> list[StoredFile]:
    """Objects below ``prefix`` whose keys could be of this software. How many others there are is logged, with the first. Links to directories are
    not followed. Raises ``RepositoryUnavailable``, and ``OSError`` for a directory that cannot be read.
    """
    found = _in_bucket(location, credentials, prefix) if location.backend == "s3" else _in_directory(Path(location.path or "."), prefix)
    ours: list[StoredFile] = []
    strange: list[str] = []
    for file in found:
        if _KEY.fullmatch(file.key):
            ours.append(file)
        else:
            strange.append(file.key)
    if strange:
        LOGGER.warning(
            "%d objects below %s in %s have names that this software does not write, and are passed over; the first is %r",
            len(strange),
            prefix or "/",
            location,
            strange[0][:200],
        )
    return ours


def _in_directory(root: Path, prefix: str) -> Iterator[StoredFile]:
    def failed(error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise error

    for directory, _, names in os.walk(root / prefix, onerror=failed):
        for name in names:
            path = Path(directory) / name
            try:
                found = path.stat()
            except OSError:
                # A link to nowhere, or to itself, is no object.
                continue
            if stat.S_ISREG(found.st_mode):
                key = path.relative_to(root).as_posix()
                yield StoredFile(key=key, bytes=found.st_size, modified=found.st_mtime_ns // 1_000_000)


def _in_bucket(location: StorageLocation, credentials: StorageCredentials | None, prefix: str) -> Iterator[StoredFile]:
    before = f"{location.prefix}/" if location.prefix else ""
    pages = amazon_client(location, credentials).get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=before + prefix)
    try:
        for item in _items(pages):
            changed: datetime = item["LastModified"]
            yield StoredFile(
                key=str(item["Key"]).removeprefix(before), bytes=int(item["Size"]), modified=int(changed.timestamp() * _MILLISECONDS)
            )
    except (boto_exceptions.ClientError, boto_exceptions.BotoCoreError) as error:
        raise unavailable(location, f"listing {prefix}", error) from error


def _items(pages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for page in pages:
        yield from page.get("Contents", ())
