"""The page with every configuration key, made from the models: its values, its default, and where it is explained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.schema import mark_tiers

EXPLAINED: Final = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
# The least that a file needs. A test loads it.
SMALLEST: Final = """\
version: 1
application: {id: orders, guarantee: exactly_once_v2}
topics: {inputs: [orders-in], outputs: [totals]}
storage: {backend: filesystem, path: /srv/savepoints}
backup: {survive_cluster_loss: true}
runs:
  kind: process
  process:
    directory: /srv/orders/run
    command: [java, -jar, /srv/orders/orders.jar]
    instances:
      - {name: orders-1, url: "http://127.0.0.1:8080", state_directory: /srv/orders/state}
"""
_HEAD: Final = f"""\
# Every configuration key

<!-- Made with the site from plugins/streams_recovery/config. Change the models. -->

A file for one application, `include/configs/orders.yaml`. This is the least that it needs:

```yaml
{SMALLEST}```

Everything else has a default. [Configuration](configuration.md) explains each section, and how variables and paths are read.
In the tables `[]` stands for each item of a list, `*` for each name. Keys that several sections have are written out once.

"""
# In place of its keys: the path at which a section of this kind is written out.
_AS: Final = "as"
_TYPES: Final = {"string": "text", "integer": "a number", "boolean": "`true`, `false`", "object": "names and values", "number": "a number"}


def configuration_page() -> str:
    """The page as Markdown."""
    schema = ApplicationConfig.model_json_schema()
    mark_tiers(schema)
    anchors = _anchors(EXPLAINED.read_text(encoding="utf-8"))
    parts, places = [_HEAD, f"There are {len(written_once())} keys.\n\n"], _places(schema)
    plain = [name for name in schema["properties"] if _section(schema, schema["properties"][name])[0] is None]
    parts.append(_table([("", name, schema["properties"][name], name in schema["required"] and name != "name") for name in plain], schema))
    for name, found in schema["properties"].items():
        rows = [(name, *row) for row in _keys(schema, found, "", name, places)]
        if rows:
            link = f"Explained in [configuration](configuration.md#{anchors[name]}).\n\n" if name in anchors else ""
            parts.append(f"\n## {name}\n\n{link}{_table(rows, schema)}")
    return "".join(parts)


def _anchors(text: str) -> dict[str, str]:
    headings = re.findall(r"^### (.+)$", text, re.MULTILINE)
    return {name: re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings for name in heading.split(", ")}


def written_once() -> list[str]:
    """Every key by its path, those that several sections have once."""
    schema = ApplicationConfig.model_json_schema()
    mark_tiers(schema)
    places = _places(schema)
    found = ((name, list(_keys(schema, inner, "", name, places))) for name, inner in schema["properties"].items())
    return [path for name, keys in found for path in ([f"{name}.{way}" for way, about, _ in keys if _AS not in about] if keys else [name])]


def _places(schema: Mapping[str, Any]) -> dict[str, str]:
    """The path at which each kind of section is written out. Where an application runs comes first: its sandboxes and sites are told of as that."""
    places: dict[str, str] = {}

    def walk(found: Mapping[str, Any], path: str) -> None:
        section, step = _section(schema, found)
        if section is None or section["title"] in places:
            return
        places[section["title"]] = path
        for name, inner in section["properties"].items():
            walk(inner, f"{path}{step}.{name}")

    for name, found in sorted(schema["properties"].items(), key=lambda item: item[0] != "runs"):
        walk(found, name)
    return places


def _keys(
    schema: Mapping[str, Any], found: Mapping[str, Any], path: str, full: str, places: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """The keys below a property: path, schema, and whether it must be there. ``full`` is the path from the top."""
    section, step = _section(schema, found)
    if section is None:
        return
    base, below = f"{path}{step}" if path else step.removeprefix("."), f"{full}{step}"
    for name, inner in section["properties"].items():
        way = ".".join(part for part in (base, name) if part)
        kind, _ = _section(schema, inner)
        if kind is not None and (place := places[kind["title"]]) != f"{below}.{name}":
            yield way, {**inner, _AS: place}, name in section.get("required", ())
        elif kind is not None:
            yield from _keys(schema, inner, way, f"{below}.{name}", places)
        else:
            yield way, inner, name in section.get("required", ())


def _section(schema: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """The section that a property holds, and the step to it."""
    for one in (found, *found.get("anyOf", ())):
        inside, step = one, ""
        if one.get("type") == "array":
            inside, step = one.get("items", {}), "[]"
        elif isinstance(one.get("additionalProperties"), dict):
            inside, step = one["additionalProperties"], ".*"
        inner = _resolved(schema, inside)
        if "properties" in inner:
            return inner, step
    return None, ""


def _resolved(schema: Mapping[str, Any], found: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = found.get("$ref")
    inner: Mapping[str, Any] = schema["$defs"][reference.rpartition("/")[2]] if reference else found
    return inner


def _table(rows: list[Any], schema: Mapping[str, Any]) -> str:
    # The ordinary keys first.
    rows = sorted(rows, key=lambda row: row[2]["x-use"])
    lines = [
        f"| `{path}` | {_values(schema, found)} | {_default(found, required=required)} | {found['x-use']} |\n"
        for _, path, found, required in rows
    ]
    return "| key | values | default | use |\n|---|---|---|---|\n" + "".join(lines)


def _values(schema: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if _AS in found:
        return f"as `{found[_AS]}`"
    options = [one for one in found.get("anyOf", (found,)) if one.get("type") != "null"]
    return " or ".join(_value(_resolved(schema, one)) for one in options)


def _value(found: Mapping[str, Any]) -> str:
    if "const" in found or "enum" in found:
        return ", ".join(f"`{value}`" for value in found.get("enum", [found.get("const")]))
    if found.get("type") == "array":
        return "a list"
    low, high = found.get("minimum", found.get("ge")), found.get("maximum", found.get("le"))
    if low is not None and high is not None:
        return f"{low:,} to {high:,}"
    return "a moment with its time zone" if found.get("format") == "date-time" else _TYPES[found.get("type", "string")]


def _default(found: Mapping[str, Any], *, required: bool) -> str:
    if required:
        return "**required**"
    if _AS in found:
        return "-"
    value = found.get("default")
    return "-" if value in (None, [], {}) else f"`{value if isinstance(value, str) else json.dumps(value)}`"
