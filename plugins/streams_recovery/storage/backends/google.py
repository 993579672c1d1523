"""Google Cloud Storage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from obstore.store import GCSStore

from streams_recovery.core.connection import StoredConnection, ignored_text
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials, given_extra, refuse_identity

LOGGER = logger("streams_recovery.storage.backends.google")
# Airflow's older forms wrote each field with this before it.
_PREFIX: Final = "extra__google_cloud_platform__"
_KEY: Final = ("keyfile_dict", "key_path")
_OTHER_IDENTITY: Final = (
    *("key_secret_name", "key_secret_project_id", "impersonation_chain", "credential_config_file"),
    *("is_anonymous", "idp_issuer_url", "idp_extra_parameters", "client_id", "client_secret"),
)
_KIND: Final = "service_account"
_NEEDED: Final = ("client_email", "private_key")


class GoogleBucket:
    """See ``BucketKind``. A connection has the type ``google_cloud_platform``, with a service account's key in ``keyfile_dict`` or in the file ``key_path``."""

    connection_type = "google_cloud_platform"
    undeleted_by: str | None = (
        "with soft delete use `gcloud storage restore`, with versions `gcloud storage cp` of the first generation of each object; then run "
        "`streams-recovery verify --level full`"
    )

    def open(self, location: StorageLocation, credentials: StorageCredentials | None, http: Mapping[str, Any]) -> Any:
        options: dict[str, Any] = dict(credentials.options) if credentials else {}
        if location.endpoint:
            options["base_url"] = location.endpoint
        return GCSStore(location.bucket, prefix=location.prefix or None, **http, **options)

    def credentials(self, stored: StoredConnection, *, where: str) -> StorageCredentials | None:
        extra = {key.removeprefix(_PREFIX): value for key, value in given_extra(stored).items()}
        refuse_identity(
            extra,
            _OTHER_IDENTITY,
            where=where,
            instead="use a connection with a service account's key, or one without any for the account of the machine",
        )
        if ignored := extra.keys() - set(_KEY):
            LOGGER.warning("%s", ignored_text(where, ignored))
        key = extra.get("keyfile_dict") or _in_file(extra.get("key_path"), where)
        return None if key is None else StorageCredentials(options={"service_account_key": _service_account(key, where)})


def _in_file(path: object, where: str) -> str | None:
    if path is None:
        return None
    try:
        return Path(str(path)).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"{where}: the key file {path} cannot be read: {getattr(error, 'strerror', None) or type(error).__name__}",
            next_step="put the service account's key there, where runs and pages are served, or into keyfile_dict",
            where=where,
        ) from None


def _service_account(key: object, where: str) -> str:
    """The key as JSON. Its text is in no error: it is a secret."""
    try:
        found = json.loads(key) if isinstance(key, str) else key
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _no_key("it is no JSON object", where)
    if (kind := found.get("type", _KIND)) != _KIND:
        raise _no_key(f"its type is {str(kind)[:40]!r}, not {_KIND!r}", where)
    if missing := [name for name in _NEEDED if not isinstance(found.get(name), str)]:
        raise _no_key(f"it has no {missing[0]}", where)
    return json.dumps(found)


def _no_key(why: str, where: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{where}: this is no key of a Google service account: {why}",
        next_step="make one with `gcloud iam service-accounts keys create`, or leave the connection without a key for the account of the machine",
        where=where,
    )
