"""Credentials for buckets of Google and Azure, as connections of Airflow have them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.masking import masked
from streams_recovery.core.repository.layout import Backend
from streams_recovery.storage.backends import credentials_in
from streams_recovery.storage.credentials import StorageCredentials

WHERE = "connection store"
PRIVATE = "-----BEGIN PRIVATE KEY-----canary-----END PRIVATE KEY-----"
KEY = {"type": "service_account", "client_email": "writer@project.example", "private_key": PRIVATE, "private_key_id": "1"}


def read(
    backend: Backend, extra: dict[str, Any] | None = None, login: str | None = None, password: str | None = None
) -> dict[str, str] | None:
    found = credentials_in(StoredConnection(login=login, password=password, extra=extra or {}), backend, where=WHERE)
    return None if found is None else dict(found.options)


@pytest.mark.parametrize("name", ["keyfile_dict", "extra__google_cloud_platform__keyfile_dict"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_service_account_s_key_stands_in_the_connection(name: str, as_text: bool) -> None:
    found = read("gcs", {name: json.dumps(KEY) if as_text else KEY, "project": "", "scope": None, "is_anonymous": False})
    assert found is not None
    assert json.loads(found["service_account_key"]) == KEY


def test_a_service_account_s_key_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text(json.dumps(KEY))
    found = read("gcs", {"key_path": str(tmp_path / "key.json")})
    assert found is not None
    assert json.loads(found["service_account_key"]) == KEY


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"keyfile_dict": "canary"}, "no JSON object"),
        ({"keyfile_dict": "[1]"}, "no JSON object"),
        ({"keyfile_dict": {**KEY, "type": "authorized_user"}}, "its type is 'authorized_user'"),
        ({"keyfile_dict": {"client_email": "a", "private_key": None}}, "it has no private_key"),
        ({"key_path": "/no/such/key.json"}, "/no/such/key.json cannot be read: No such file"),
        ({"impersonation_chain": "canary"}, "impersonation_chain asks for another identity"),
        ({"is_anonymous": True, "keyfile_dict": json.dumps(KEY)}, "is_anonymous asks for another identity"),
    ],
)
def test_what_is_no_key_of_google_is_refused_without_showing_it(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigInvalid, match="connection store") as refused:
        read("gcs", extra)
    assert said in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("extra", "login", "password", "options"),
    [
        ({}, "acme", "key==", {"account_key": "key=="}),
        ({"shared_access_key": "key=="}, None, None, {"account_key": "key=="}),
        ({"sas_token": "?sv=1&sig=a%2B"}, None, None, {"sas_key": "sv=1&sig=a%2B"}),
        ({"sas_token": "https://acme.blob.core.windows.net/c?sv=1&sig=a"}, "acme", None, {"sas_key": "sv=1&sig=a"}),
        ({"tenant_id": "t"}, "id", "secret", {"tenant_id": "t", "client_id": "id", "client_secret": "secret"}),
        ({"managed_identity_client_id": "id"}, None, None, {"client_id": "id"}),
        ({"managed_identity_client_id": "id", "workload_identity_tenant_id": "t"}, None, None, {"client_id": "id", "tenant_id": "t"}),
    ],
)
def test_an_identity_of_azure_is_a_key_a_signature_an_application_or_the_machine_s(
    extra: dict[str, str], login: str | None, password: str | None, options: dict[str, str]
) -> None:
    assert read("azure", extra, login, password) == options


@pytest.mark.parametrize(
    ("extra", "login", "password", "said"),
    [
        ({"connection_string": "AccountKey=canary"}, None, None, "connection_string asks for another identity"),
        ({"sas_token": "sig=canary"}, None, "canary", "a sas_token and an account's key"),
        ({"sas_token": "sig=canary", "tenant_id": "t"}, "id", "canary", "a sas_token and a tenant_id"),
        ({"tenant_id": "t"}, "id", None, "no application of it"),
    ],
)
def test_an_identity_of_azure_that_is_not_one_is_refused(extra: dict[str, str], login: str | None, password: str | None, said: str) -> None:
    with pytest.raises(ConfigInvalid, match="connection store") as refused:
        read("azure", extra, login, password)
    assert said in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(("backend", "kind"), [("gcs", "aws"), ("azure", "google_cloud_platform"), ("s3", "wasb")])
def test_a_connection_of_another_cloud_is_refused(backend: Backend, kind: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"connection store has type {kind}, and storage.backend is {backend}"):
        credentials_in(StoredConnection(conn_type=kind, login="key", password="canary"), backend, where=WHERE)


@pytest.mark.parametrize("backend", ["gcs", "azure"])
def test_without_a_key_the_identity_of_the_machine_is_used(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    assert read(backend, {"num_retries": "5"}) is None
    assert caplog.messages == ["connection store: ignored num_retries: this software does not use them"]


def test_no_secret_is_shown_after_it_has_travelled_to_a_worker() -> None:
    key = StorageCredentials(options={"service_account_key": json.dumps(KEY)})
    there = pickle.loads(pickle.dumps(key))
    assert there == key
    assert repr(there) == "StorageCredentials(***)"
    assert "canary" not in masked(f"the answer was {PRIVATE}")
    assert StorageCredentials(options={"client_id": "a-public-id"}).secrets == ()
