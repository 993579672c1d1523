"""JSON schema of the configuration, for editors. ``python -m streams_recovery.config.schema FILE`` writes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.tiers import is_ordinary

_VARIABLE = {"type": "string", "pattern": r"\$\{"}


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
