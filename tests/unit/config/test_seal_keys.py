"""The keys of seals, as a configuration names them: those that count, those that were withdrawn, and the one that signs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load
from streams_recovery.operations.context import seal_keys
from tests.support.examples.configurations import MINIMAL, refused, written

PUBLIC = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="


OLDER = "ed25519:PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="


def seal(enabled: str, first: str, second: str = "none") -> str:
    keys = f"    public_keys:\n      - {first}\n      - {second}\n"
    return MINIMAL.replace("storage:\n", f"storage:\n  seal:\n    enabled: {enabled}\n    connection: seal\n{keys}")


class OneSecret(EnvironmentConnections):
    """Says when somebody has asked for it."""

    def __init__(self) -> None:
        super().__init__({"AIRFLOW_CONN_SEAL": json.dumps({"conn_type": "generic", "password": "secret"})})
        self.asked = 0

    def secret(self, connection_id: str) -> str | None:
        self.asked += 1
        return super().secret(connection_id)


def test_a_variable_switches_the_seals_and_none_is_no_key(tmp_path: Path) -> None:
    text, connections = seal("${SEAL:-false}", "${KEY:-none}", "${OLD:-none}"), OneSecret()
    assert seal_keys(load(written(tmp_path, text), {}), connections) is None
    for variables, keys in (({"KEY": PUBLIC}, (PUBLIC,)), ({"KEY": PUBLIC, "OLD": OLDER}, (PUBLIC, OLDER))):
        found = seal_keys(load(written(tmp_path, text), {"SEAL": "true", **variables}), connections)
        assert found is not None
        assert (found.public, found.private) == (keys, "secret")
    assert "public_keys is empty" in refused(tmp_path, text.replace("SEAL:-false", "SEAL:-true"))


@pytest.mark.fault("F77")
def test_a_variable_that_has_lost_its_value_takes_no_key_away(tmp_path: Path) -> None:
    said = "entry 2 is null, perhaps a variable without a value; write none where no key is meant"
    assert said in refused(tmp_path, seal("true", PUBLIC, "${OLD:-}"))
    withdrawn = seal("true", PUBLIC).replace("    public_keys:", f"    withdrawn_keys: [{OLDER}, ~]\n    public_keys:")
    assert said in refused(tmp_path, withdrawn)


@pytest.mark.fault("F77")
def test_a_key_that_was_withdrawn_is_not_believed_beside(tmp_path: Path) -> None:
    text = seal("true", PUBLIC).replace("    public_keys:", f"    withdrawn_keys: [{OLDER}]\n    public_keys:")
    found = seal_keys(load(written(tmp_path, text), {}), OneSecret())
    assert found is not None
    assert (found.public, found.withdrawn) == ((PUBLIC,), (OLDER,))
    assert "is in public_keys and in withdrawn_keys; keep one" in refused(tmp_path, text.replace(OLDER, PUBLIC))


def test_whoever_only_reads_does_not_ask_for_the_private_key(tmp_path: Path) -> None:
    config, connections = load(written(tmp_path, seal("true", PUBLIC)), {}), OneSecret()
    found = seal_keys(config, connections, writes=False)
    assert found is not None
    assert (found.public, found.private, connections.asked) == ((PUBLIC,), None, 0)
