"""The form for connections of type ``kafka``, as an Airflow shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from streams_recovery.provider.info import get_provider_info

# What Airflow's page of connections asks its server for. Airflow logs to the same output, so the answer is its last line.
_ASKED: Final = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
forms = {form.connection_type: form.model_dump(mode="json", by_alias=True) for form in HookMetaService.hook_meta_data()}
print(json.dumps(forms.get("kafka")))
"""


def shown(run: Callable[[str], str]) -> dict[str, Any]:
    """The form's hook, and of each field its label and whether it is a secret. ``run`` runs Python of that Airflow and returns what it prints."""
    form = json.loads(run(_ASKED).splitlines()[-1])
    assert form is not None, "this Airflow has no connections of type kafka"
    fields = {name: (field["schema"]["title"], _secret(field)) for name, field in form["extra_fields"].items()}
    return {"hook": form["hook_class_name"], "name": form["hook_name"], "fields": fields}


def declared() -> dict[str, Any]:
    """The same, as the provider declares it."""
    (kafka,) = get_provider_info()["connection-types"]
    fields = {name: (field["label"], _secret(field)) for name, field in kafka["conn-fields"].items()}
    return {"hook": kafka["hook-class-name"], "name": kafka["hook-name"], "fields": fields}


def _secret(field: dict[str, Any]) -> bool:
    return bool(field["schema"].get("format") == "password")
