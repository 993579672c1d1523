from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import jsonschema

from streams_recovery.kafka import properties as known
from streams_recovery.provider.info import get_provider_info
from tests.support.project import PROJECT


def test_it_is_what_airflow_s_schema_of_a_provider_asks_for() -> None:
    found = find_spec("airflow")
    assert found is not None
    assert found.submodule_search_locations
    schema = json.loads((Path(found.submodule_search_locations[0]) / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_what_it_names_exists() -> None:
    info = get_provider_info()
    for kind in info["connection-types"]:
        module, _, name = kind["hook-class-name"].rpartition(".")
        assert getattr(importlib.import_module(module), name).conn_type == kind["connection-type"]
    for entry in (*info["bundles"], *info["hooks"]):
        assert entry["integration-name"] in {found["integration-name"] for found in info["integrations"]}
        for module in entry["python-modules"]:
            importlib.import_module(module)


def test_the_form_asks_only_for_what_a_connection_may_have() -> None:
    (kafka,) = get_provider_info()["connection-types"]
    assert set(kafka["conn-fields"]) <= known.ALLOWED
    hidden = {name for name, field in kafka["conn-fields"].items() if field["schema"].get("format") == "password"}
    assert hidden == set(kafka["conn-fields"]) & known.SECRETS


def test_the_type_is_left_to_airflow_s_own_provider_where_that_is_installed(tmp_path: Path) -> None:
    for folder in ("airflow", "airflow/providers", "airflow/providers/apache", "airflow/providers/apache/kafka"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    code = "from streams_recovery.provider.info import get_provider_info; print(get_provider_info()['connection-types'])"
    environment = {"PYTHONPATH": f"{tmp_path}:{PROJECT / 'plugins'}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
