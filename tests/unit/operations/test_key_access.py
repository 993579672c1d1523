"""The section for the keys of records, and what its connections and files give."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.encryption import KeyPlace
from streams_recovery.operations.context import key_access
from tests.support.examples.configurations import MINIMAL, refused, written

LOCAL = base64.b64encode(b"k" * 32).decode()
ARN = "arn:aws:kms:eu-central-1:123456789012:key/1"
CONNECTIONS = {
    "AIRFLOW_CONN_KMS": json.dumps({"conn_type": "aws", "login": "AKIA", "password": "a secret"}),
    "AIRFLOW_CONN_LOCAL": json.dumps({"conn_type": "generic", "password": LOCAL}),
    "AIRFLOW_CONN_EMPTY": json.dumps({"conn_type": "generic"}),
}


def text(*keys: str, more: str = "") -> str:
    """A configuration with this section."""
    return MINIMAL.replace("storage:\n", f"storage:\n  encryption: {{keys: [{', '.join(keys)}]{more}}}\n")


def places(directory: Path, *keys: str, more: str = "") -> tuple[KeyPlace, ...] | None:
    found = key_access(load(written(directory, text(*keys, more=more)), {}), EnvironmentConnections(CONNECTIONS))
    return None if found is None else found.places


def test_each_key_is_found_with_its_secret_or_with_why_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{LOCAL}\n")
    (tmp_path / "key").chmod(0o600)
    found = places(
        tmp_path,
        f"{{key: 'aws:{ARN}', connection: kms}}",
        f"{{key: 'aws:{ARN}'}}",
        f"{{key: 'aws:{ARN}', connection: nowhere}}",
        "{key: local, connection: local}",
        "{key: local, connection: empty}",
        f"{{key: local, key_file: {tmp_path}/key}}",
        f"{{key: local, key_file: {tmp_path}/gone}}",
        "{key: 'vault:https://v:8200/v1/transit/keys/k', connection: local}",
    )
    assert found is not None
    assert [(one.provider, one.address) for one in found[:4]] == [("aws", ARN)] * 3 + [("local", "")]
    assert [dict(one.options) for one in found] == [
        {"access_key_id": "AKIA", "secret_access_key": "a secret"},
        {},
        {},
        {"secret": LOCAL},
        {},
        {"secret": LOCAL},
        {},
        {"secret": LOCAL},
    ]
    assert ["" if not one.missing else one.missing.split()[-1] for one in found] == [
        *("", "", found[2].missing.split()[-1], ""),
        *("password", "", "directory", ""),
    ]
    assert "nowhere" in found[2].missing


def test_the_key_of_the_place_that_is_read_comes_first(tmp_path: Path) -> None:
    keys = f"{{key: 'aws:{ARN}', connection: kms, mirror: true}}, {{key: local, connection: local}}, {{key: 'aws:{ARN}2', connection: kms}}"
    more = f"  mirror: {{backend: filesystem, path: {tmp_path}/second}}\n"
    config = load(written(tmp_path, text(keys).replace("storage:\n", f"storage:\n{more}")), {})
    for one, order in ((config, ["", f"{ARN}2", ARN]), (config.from_second_place, [ARN, "", f"{ARN}2"])):
        found = key_access(one, EnvironmentConnections(CONNECTIONS))
        assert found is not None
        assert [place.address for place in found.places] == order
        assert [place.mirror for place in found.places] == [address == ARN for address in order]


def test_without_the_section_and_switched_off_records_are_in_clear(tmp_path: Path) -> None:
    assert key_access(load(written(tmp_path, MINIMAL), {}), EnvironmentConnections({})) is None
    assert places(tmp_path, more=", enabled: false") is None


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(LOCAL)
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(ConfigInvalid, match="others can read it"):
        places(tmp_path, f"{{key: local, key_file: {tmp_path}/key}}")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "keys is empty"),
        ("{key: rot13}", "write local, or"),
        ("{key: 'local:x', connection: c}", "write local, or"),
        ("{key: 'aws:'}", "write local, or"),
        ("{key: local, connection: c, mirror: true}", "keys has only those of the second place"),
        ("{key: local}", "a local key needs a connection"),
        ("{key: local, connection: c, key_file: /k}", "and not both"),
        ("{key: 'vault:https://v/v1/transit/keys/k'}", "a vault key needs a connection"),
        ("{key: 'aws:arn:x', key_file: /k}", "key_file is for a local key"),
    ],
)
def test_a_section_that_cannot_work_is_refused(tmp_path: Path, key: str, why: str) -> None:
    assert why in refused(tmp_path, text(key))


def test_values_are_not_stored_in_clear_beside_encrypted_records(tmp_path: Path) -> None:
    shown = text("{key: local, connection: local}") + "access: {show_values: true}\n"
    assert "access.show_values: runs would store keys and values in clear" in refused(tmp_path, shown)
    assert load(written(tmp_path, shown.replace("encryption: {", "encryption: {enabled: false, ")), {}).access.show_values
