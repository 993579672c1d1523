"""Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from obstore.store import AzureStore

from streams_recovery.core.connection import StoredConnection, ignored_text
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials, given_extra, refuse_identity

LOGGER = logger("streams_recovery.storage.backends.azure")
_KNOWN: Final = ("sas_token", "tenant_id", "shared_access_key", "managed_identity_client_id", "workload_identity_tenant_id")
_OTHER_IDENTITY: Final = ("connection_string", "client_secret_auth_config", "proxies")


class AzureContainer:
    """See ``BucketKind``. A connection has the type ``wasb``: the password is the account's key, or the extra has a ``sas_token``; with ``tenant_id`` login and
    password are the id and the secret of an application in Entra ID. ``managed_identity_client_id`` names one identity of the machine.
    """

    connection_type = "wasb"
    undeleted_by: str | None = (
        "with soft delete use `az storage blob undelete`, with versions `az storage blob copy start` of the first version of each blob; then run "
        "`streams-recovery verify --level full`"
    )

    def open(self, location: StorageLocation, credentials: StorageCredentials | None, http: Mapping[str, Any]) -> Any:
        options: dict[str, Any] = dict(credentials.options) if credentials else {}
        if location.endpoint:
            options["endpoint"] = location.endpoint
        return AzureStore(location.bucket, prefix=location.prefix or None, account_name=location.account, **http, **options)

    def credentials(self, stored: StoredConnection, *, where: str) -> StorageCredentials | None:
        extra = {key: str(value) for key, value in given_extra(stored).items()}
        refuse_identity(
            extra,
            _OTHER_IDENTITY,
            where=where,
            instead="use the account's key as password, a sas_token, tenant_id with login and password, or none of them for the identity of the machine",
        )
        if ignored := extra.keys() - set(_KNOWN):
            LOGGER.warning("%s", ignored_text(where, ignored))
        options = _options(stored, extra, where)
        return StorageCredentials(options=options) if options else None


def _options(stored: StoredConnection, extra: Mapping[str, str], where: str) -> dict[str, str]:
    token, tenant = extra.get("sas_token"), extra.get("tenant_id")
    key = extra.get("shared_access_key") or (None if tenant else stored.password)
    given = [name for name, value in (("a sas_token", token), ("a tenant_id", tenant), ("an account's key", key)) if value]
    if len(given) > 1:
        raise ConfigInvalid(f"{where} has {' and '.join(given)}", next_step="keep one of them", where=where)
    if token:
        # A portal gives it as the query of an address, or with the address.
        return {"sas_key": token.rpartition("?")[2]}
    if tenant:
        return _application(stored, tenant, where)
    if key:
        return {"account_key": key}
    names = {"client_id": "managed_identity_client_id", "tenant_id": "workload_identity_tenant_id"}
    return {option: extra[name] for option, name in names.items() if name in extra}


def _application(stored: StoredConnection, tenant: str, where: str) -> dict[str, str]:
    if not stored.login or not stored.password:
        raise ConfigInvalid(
            f"{where} has a tenant_id, but no application of it",
            next_step="put the application's id into the login and its secret into the password",
            where=where,
        )
    return {"tenant_id": tenant, "client_id": stored.login, "client_secret": stored.password}
