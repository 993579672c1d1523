"""JSON schema of the configuration, for editors. ``python -m streams_recovery.config.schema FILE`` writes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from streams_recovery.config.model import ApplicationConfig

# By section. The schema and the reference say it of each key, and the tests hold the reference to it.
ORDINARY: Final[dict[str, frozenset[str]]] = {
    section: frozenset(names.split())
    for section, names in {
        "ApplicationConfig": "version application source topics stores storage backup archive retention monitor drill access runs",
        "Application": "id guarantee",
        "Source": "connection",
        "Topics": "inputs outputs globals",
        "Store": "kind key value",
        "Storage": "backend path bucket region account connection seal",
        "SealSection": "public_keys key_file",
        "Backup": "survive_cluster_loss schedule consistency",
        "ConsistencyPolicy": "mode fallback",
        "ArchiveSection": "enabled state",
        "Retention": "apply keep_last keep_hourly keep_daily keep_weekly keep_monthly",
        "Monitor": "objectives notify",
        "MonitorObjectives": "newest_age recovery_time loss",
        "Notify": "notifier arguments",
        "Drill": "schedule application_id topic_map process",
        "SandboxProcess": "directory environment instances",
        "Access": "show_values",
        "Runs": "kind process command kubernetes",
        "ProcessRuns": "directory command environment instances",
        "ProcessInstance": "name url state_directory",
        "CommandRuns": "status stop start wipe",
        "KubernetesRuns": "namespace workload state_directory port",
    }.items()
}
_VARIABLE = {"type": "string", "pattern": r"\$\{"}


def is_ordinary(section: str, key: str) -> bool:
    """True if an ordinary configuration has this key of the section with this class name."""
    return key in ORDINARY.get(section, ())


class _WithVariables(GenerateJsonSchema):
    """A schema that takes a ``${VARIABLE}`` wherever a number, a switch or one of a few words is expected."""

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        return _or_variable(super().int_schema(schema))

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return _or_variable(super().float_schema(schema))

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        return _or_variable(super().bool_schema(schema))

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return _or_variable(super().enum_schema(schema))

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return _or_variable(super().literal_schema(schema))


def _or_variable(schema: JsonSchemaValue) -> JsonSchemaValue:
    return {"anyOf": [schema, _VARIABLE]}


def application_schema() -> dict[str, Any]:
    """The schema as JSON data. ``name`` is optional in a file: its stem stands in. ``x-use`` of a key is ``ordinary`` or ``rare``."""
    schema = ApplicationConfig.model_json_schema(schema_generator=_WithVariables)
    mark_tiers(schema)
    schema["required"] = [key for key in schema["required"] if key != "name"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Kafka Streams Recovery: one application", **schema}


def mark_tiers(schema: Mapping[str, Any]) -> None:
    """Say of each key of a schema of ``ApplicationConfig``, as ``x-use``, whether it is ordinary or rare."""
    for section, found in {ApplicationConfig.__name__: schema, **schema["$defs"]}.items():
        for key, about in found.get("properties", {}).items():
            about["x-use"] = "ordinary" if is_ordinary(section, key) else "rare"


def rendered() -> str:
    """The schema as it stands in the published file."""
    return json.dumps(application_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "include/configs/application.schema.json").write_text(rendered(), encoding="utf-8")
