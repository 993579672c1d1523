"""Questions to a store that the object-store library cannot ask: those to a bucket go through Amazon's own client. It is slow to import, and not on the
workers of Spark: this module is imported where it is needed only.

A bucket with object lock or versions answers a deletion with success and keeps the bytes under a delete marker. Expiry asks for both. Only bringing
back what was deleted asks for older versions.

The library gives up a whole listing at a name that it has no key for: a file name that is not UTF-8, a line break in a key, a link to its own directory.
One such object would keep every run from finding its own, so that listing is made here.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import boto3
from botocore import exceptions
from botocore.config import Config

from streams_recovery.core.errors import ConfigInvalid, RecoveryError, RepositoryUnavailable
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.retention import ObjectLock, StoredFile
from streams_recovery.core.repository.undelete import ObjectVersion, same_by_tag
from streams_recovery.storage.conditional_put import untrusted
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.open_store import authorities, raise_unless_gone

_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_NO_LOCK = frozenset({"ObjectLockConfigurationNotFoundError", "NotImplemented", "MethodNotAllowed", "501", "405"})

LOGGER = logger("streams_recovery.storage")

# Every key of ours is made of names on the allow-list.
_KEY: Final = re.compile(r"(?!(.*/)?\.\.?(/|$))[a-zA-Z0-9._-]+(/[a-zA-Z0-9._-]+)*")


class _Bucket:
    """One bucket. Keys are relative to the location's prefix."""

    def __init__(self, location: StorageLocation, credentials: StorageCredentials | None) -> None:
        self._location = location
        self._credentials = credentials
        self._prefix = f"{location.prefix}/" if location.prefix else ""

    @cached_property
    def _client(self) -> Any:
        return _amazon_client(self._location, self._credentials)


class BucketProtection(_Bucket):
    """Asks one bucket. A setting that the server does not tell us counts as no protection: a removal that it forbids fails by itself."""

    def lock_of(self, key: str) -> ObjectLock | None:
        """The lock on an object, None when the bucket has none or the object does not exist. Raises ``RepositoryUnavailable``."""
        if self._configuration is None:
            return None
        found = self._asked("head_object", Key=self._prefix + key)
        if found is None:
            return None
        until = found.get("ObjectLockRetainUntilDate") or self._by_default(found["LastModified"])
        return ObjectLock(
            mode=found.get("ObjectLockMode") or self._default.get("Mode", ""),
            until=None if until is None else int(until.timestamp() * 1000),
            legal_hold=found.get("ObjectLockLegalHoldStatus") == "ON",
        )

    @cached_property
    def keeps_versions(self) -> bool:
        """True when what is removed stays as an older version, until the bucket's own rules let it go."""
        return bool((self._asked("get_bucket_versioning") or {}).get("Status") == "Enabled")

    @cached_property
    def _configuration(self) -> dict[str, Any] | None:
        return self._asked("get_object_lock_configuration")

    @property
    def _default(self) -> dict[str, Any]:
        rule = ((self._configuration or {}).get("ObjectLockConfiguration") or {}).get("Rule") or {}
        return dict(rule.get("DefaultRetention") or {})

    def _by_default(self, created: datetime) -> datetime | None:
        # Some servers hold an object by the bucket's rule without writing that on the object.
        days = self._default.get("Days") or 365 * self._default.get("Years", 0)
        return created + timedelta(days=days) if days else None

    def _asked(self, question: str, **more: str) -> dict[str, Any] | None:
        try:
            return dict(getattr(self._client, question)(Bucket=self._location.bucket, **more))
        except exceptions.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in _ABSENT | _NO_LOCK:
                return None
            if status < HTTPStatus.INTERNAL_SERVER_ERROR:
                # Not ours to know. An empty answer: nothing is told, but objects may be locked all the same.
                return {} if question == "get_object_lock_configuration" else None
            raise _unavailable(self._location, question, error) from error
        except exceptions.NoCredentialsError:
            return None
        except exceptions.BotoCoreError as error:
            raise _unavailable(self._location, question, error) from error


class BucketVersions(_Bucket):
    """The versions that one bucket keeps. Raises ``ConfigInvalid`` for what it does not let us do, ``RepositoryUnavailable`` when it does not answer."""

    @cached_property
    def kept(self) -> bool:
        """True when the bucket says that it keeps versions. False also when it does not say."""
        return BucketProtection(self._location, self._credentials).keeps_versions

    def below(self, prefix: str) -> list[ObjectVersion]:
        """All versions below ``prefix``, those of one key newest first, and all delete markers."""
        found: list[ObjectVersion] = self._asked("listing versions", lambda: list(self._listed(prefix)))
        return found

    def same(self, one: ObjectVersion, other: ObjectVersion) -> bool:
        """True if two versions of an entry of a log have the same content. They are read where only their tags differ: where a bucket encrypts with KMS, a copy
        has a tag of its own.
        """
        if same_by_tag(one, other) or one.bytes != other.bytes:
            return same_by_tag(one, other)
        return self._content(one) == self._content(other)

    def _content(self, one: ObjectVersion) -> bytes:
        where, name = self._location, self._prefix + one.key

        def read() -> bytes:
            return bytes(self._client.get_object(Bucket=where.bucket, Key=name, VersionId=one.version_id)["Body"].read())

        return bytes(self._asked(f"reading {one.key}", read))

    def bring_back(self, key: str, version_id: str) -> None:
        """Copy an older version over the latest, in the server and with its metadata. Needs no right to delete; up to 5 GiB."""
        where, name = self._location, self._prefix + key
        # The copy is a new object: S3 encrypts it as this request or the bucket says, not as the old version was.
        encryption = {"ServerSideEncryption": where.sse, "SSEKMSKeyId": where.kms_key_id}
        source = {"Bucket": where.bucket, "Key": name, "VersionId": version_id}
        more = {argument: value for argument, value in encryption.items() if value}
        self._asked(f"copying {key}", lambda: self._client.copy_object(Bucket=where.bucket, Key=name, CopySource=source, **more))

    def _listed(self, prefix: str) -> Iterator[ObjectVersion]:
        pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._location.bucket, Prefix=self._prefix + prefix)
        for page in pages:
            for kind in ("Versions", "DeleteMarkers"):
                for item in page.get(kind, []):
                    yield ObjectVersion(
                        key=item["Key"].removeprefix(self._prefix),
                        version_id=item["VersionId"],
                        latest=bool(item["IsLatest"]),
                        deleted=kind == "DeleteMarkers",
                        bytes=int(item.get("Size", 0)),
                        etag=item.get("ETag", ""),
                    )

    def _asked(self, doing: str, call: Any) -> Any:
        try:
            return call()
        except exceptions.ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise _unavailable(self._location, doing, error) from error
            raise ConfigInvalid(
                f"{doing} of {self._location} is not possible: {str(error)[:300]}",
                next_step="give this user s3:ListBucketVersions, s3:GetObjectVersion and s3:PutObject, or run it as one who has them",
            ) from error
        except exceptions.BotoCoreError as error:
            raise _unavailable(self._location, doing, error) from error


def listed_without_them(location: StorageLocation, credentials: StorageCredentials | None, prefix: str) -> list[StoredFile]:
    """Objects below ``prefix`` whose keys could be of this software. How many others there are is logged, with the first. Links to directories are
    not followed. Raises ``RepositoryUnavailable``, and ``OSError`` for a directory that cannot be read. Raises
    ``ConfigInvalid`` for the buckets of other clouds, which Amazon's client does not ask.
    """
    if location.backend not in ("s3", "filesystem"):
        raise ConfigInvalid(
            f"{location} has an object below {prefix or '/'} whose name this software has no key for: it cannot list what is there",
            next_step="remove the object, with a line break or another control character in its name, or use a bucket of its own",
        )
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
    for directory, _, names in os.walk(root / prefix, onerror=raise_unless_gone):
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
    pages = _amazon_client(location, credentials).get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=before + prefix)
    try:
        for item in itertools.chain.from_iterable(page.get("Contents", ()) for page in pages):
            changed: datetime = item["LastModified"]
            yield StoredFile(key=str(item["Key"]).removeprefix(before), bytes=int(item["Size"]), modified=int(changed.timestamp() * 1000))
    except (exceptions.ClientError, exceptions.BotoCoreError) as error:
        raise _unavailable(location, f"listing {prefix}", error) from error


def _amazon_client(where: StorageLocation, keys: StorageCredentials | None) -> Any:
    """Amazon's own client for the bucket's server. Asks nothing yet."""
    known = keys.options if keys else {}
    authorities(where)  # the library says neither which file nor which certificate is broken
    return boto3.client(
        "s3",
        # The other library wants the bucket in the endpoint's name where it is not in the path; this one puts it there itself.
        endpoint_url=where.endpoint and where.endpoint.replace(f"//{where.bucket}.", "//", 1),
        region_name=where.region or "us-east-1",
        verify=where.ca_file,
        aws_access_key_id=known.get("access_key_id"),
        aws_secret_access_key=known.get("secret_access_key"),
        aws_session_token=known.get("session_token"),
        config=Config(
            s3={"addressing_style": "path" if where.path_style else "virtual"},
            connect_timeout=10,
            read_timeout=30,
            retries={"mode": "standard", "total_max_attempts": 5},
        ),
    )


def _unavailable(where: StorageLocation, question: str, error: Exception) -> RecoveryError:
    """The error of a server that does not answer a question, or is not trusted."""
    if isinstance(error, exceptions.SSLError):
        return untrusted(where, f"{question} of {where}", str(error)[:300])
    return RepositoryUnavailable(
        f"{question} of {where} failed: {str(error)[:300]}", next_step="check that the store can be reached, then run again"
    )
