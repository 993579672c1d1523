"""Amazon S3, and servers that are compatible with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from obstore.store import S3Store

from streams_recovery.core.connection import StoredConnection, ignored_text
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials, access_key, given_extra, refuse_identity

LOGGER = logger("streams_recovery.storage.backends.s3")
_KEY: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_OTHER_IDENTITY: Final = ("role_arn", "assume_role_method", "assume_role_kwargs", "external_id", "profile_name", "session_kwargs")


class S3Bucket:
    """See ``BucketKind``. A connection has the type ``aws``: login and password are the access key, or the extra has it."""

    connection_type = "aws"
    undeleted_by: str | None = None

    def open(self, location: StorageLocation, credentials: StorageCredentials | None, http: Mapping[str, Any]) -> Any:
        options = _options(location) | dict(credentials.options if credentials else {})
        return S3Store(location.bucket, prefix=location.prefix or None, **http, **options)

    def credentials(self, stored: StoredConnection, *, where: str) -> StorageCredentials | None:
        extra = given_extra(stored)
        refuse_identity(
            extra,
            _OTHER_IDENTITY,
            where=where,
            instead="use a connection with an access key, or one without any for the role of the machine",
        )
        if ignored := extra.keys() - set(_KEY):
            LOGGER.warning("%s", ignored_text(where, ignored))
        name, secret, token = (extra.get(key) for key in _KEY)
        login, password = stored.login or name, stored.password or secret
        if not login or not password:
            return None
        return access_key(str(login), str(password), str(token) if token else None)


def _options(location: StorageLocation) -> dict[str, Any]:
    options: dict[str, Any] = {
        "region": location.region or "us-east-1",
        "virtual_hosted_style_request": not location.path_style,
        # The server compares what arrived with what was sent; a bucket with object lock accepts nothing without it.
        "checksum_algorithm": "SHA256",
        # One answer for each object: a refusal inside the answer to a bulk request would be lost.
        "disable_bulk_delete": True,
    }
    if location.endpoint:
        options["endpoint"] = location.endpoint
    if location.sse:
        options["server_side_encryption"] = location.sse
    if location.kms_key_id:
        options["sse_kms_key_id"] = location.kms_key_id
    return options
