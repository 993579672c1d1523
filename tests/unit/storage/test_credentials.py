from __future__ import annotations

import json

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.stored_connection import StoredConnection
from streams_recovery.storage.credentials import StorageCredentials

WHERE = "connection aws_default"


def read(text: str) -> StorageCredentials | None:
    return StorageCredentials.from_stored(StoredConnection.parse(text), where=WHERE)


@pytest.mark.parametrize(
    "text",
    [
        "aws://AKIA:se%2Fcret@/?aws_session_token=token",
        "aws://?aws_access_key_id=AKIA&aws_secret_access_key=se%2Fcret&aws_session_token=token",
        json.dumps({"conn_type": "aws", "login": "AKIA", "password": "se/cret", "extra": {"aws_session_token": "token"}}),
    ],
)
def test_a_key_is_login_and_password_or_in_the_extra(text: str, caplog: pytest.LogCaptureFixture) -> None:
    found = read(text)
    assert found is not None
    assert (found.access_key_id, found.secret_access_key, found.session_token) == ("AKIA", "se/cret", "token")
    assert caplog.records == []


@pytest.mark.parametrize("text", ["aws://", "aws://AKIA@", '{"conn_type": "aws", "extra": {"role_arn": "", "region_name": null}}'])
def test_without_a_key_the_machine_s_own_role_is_used(text: str) -> None:
    assert read(text) is None


def test_what_the_configuration_file_says_is_left_out_of_the_connection_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert read("aws://AKIA:hunter2@/?region_name=eu-west-1&endpoint_url=hunter3") is not None
    assert caplog.messages == ["connection aws_default: ignored endpoint_url, region_name: this software does not use them"]


def test_a_role_is_refused_and_not_left_out() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read("aws://AKIA:hunter2@/?role_arn=arn")
    assert refused.value.facts["keys"] == ["role_arn"]
    assert "hunter2" not in str(refused.value)
