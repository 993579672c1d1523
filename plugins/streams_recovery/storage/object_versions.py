"""Older versions of a bucket's objects: what is there, and one made the latest again. Only bringing back what was deleted uses it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from http import HTTPStatus
from typing import Any

from botocore import exceptions

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.repository.undelete import ObjectVersion
from streams_recovery.storage.amazon import amazon_client, unavailable
from streams_recovery.storage.bucket_features import BucketProtection
from streams_recovery.storage.credentials import StorageCredentials


class BucketVersions:
    """The versions that one bucket keeps. Keys are relative to the location's prefix. Raises ``ConfigInvalid`` for what it does not let us do,
    ``RepositoryUnavailable`` when it does not answer.
    """

    def __init__(self, location: StorageLocation, credentials: StorageCredentials | None) -> None:
        self._location = location
        self._credentials = credentials
        self._prefix = f"{location.prefix}/" if location.prefix else ""

    @cached_property
    def kept(self) -> bool:
        """Whether the bucket says that it keeps versions. False also when it does not say."""
        return BucketProtection(self._location, self._credentials).keeps_versions

    def below(self, prefix: str) -> list[ObjectVersion]:
        """All versions below ``prefix``, those of one key newest first, and all delete markers."""
        found: list[ObjectVersion] = self._asked("listing versions", lambda: list(self._listed(prefix)))
        return found

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
                raise unavailable(self._location, doing, error) from error
            raise ConfigInvalid(
                f"{doing} of {self._location} is not possible: {str(error)[:300]}",
                next_step="give this user s3:ListBucketVersions, s3:GetObjectVersion and s3:PutObject, or run it as one who has them",
            ) from error
        except exceptions.BotoCoreError as error:
            raise unavailable(self._location, doing, error) from error

    @cached_property
    def _client(self) -> Any:
        return amazon_client(self._location, self._credentials)
