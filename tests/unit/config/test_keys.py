"""Every key of a configuration, in sections and in what is in them, is in the reference, in the schema and in the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml

from streams_recovery.config.fields import Section, section_of
from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.schema import ORDINARY, is_ordinary
from tests.support.examples.configurations import MINIMAL
from tests.support.project import PROJECT

CONFIGS = PROJECT / "include" / "configs"
REFERENCE = CONFIGS / "reference.yaml.example"
PAGE = PROJECT / "docs" / "configuration.md"
ANY = "*"


@dataclass(frozen=True)
class Key:
    """A key of a section, and the way to it: ``*`` for each item of a list and each name of a mapping. Where the same section is in several places, one
    place that writes it out is enough.
    """

    section: type[Section]
    path: tuple[str, ...]
    leaf: bool

    @property
    def name(self) -> str:
        return f"{self.section.__name__}.{self.path[-1]}"


def sections(annotation: Any) -> Iterator[tuple[type[Section], tuple[str, ...]]]:
    """The sections that a field of this type may hold, with the steps to them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation, ()
    if isinstance(annotation, type) and is_dataclass(annotation):
        yield section_of(annotation), ()
    step = (ANY,) if get_origin(annotation) in (tuple, list, dict) else ()
    for inner in get_args(annotation):
        for section, way in sections(inner):
            yield section, step + way


def keys(model: type[Section] = ApplicationConfig, path: tuple[str, ...] = ()) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        inner = list(sections(field.annotation))
        yield Key(section=model, path=(*path, name), leaf=not inner)
        for section, way in inner:
            yield from keys(section, (*path, name, *way))


def missing(found: set[str]) -> list[str]:
    return sorted({key.name for key in keys()} - found)


def parts() -> tuple[str, str]:
    """The reference: ordinary keys, and rare ones."""
    ordinary, rare = REFERENCE.read_text(encoding="utf-8").split("\n---\n")
    return ordinary, rare


def written_out(text: str) -> Any:
    """A part of the reference, with the sections and the items of lists that it has as comments."""
    text = re.sub(r"^\w+: (null|{}) +# or a section such as:\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^( +\w+:) \[\] +# .*such as:$", r"\1", text, flags=re.MULTILINE)
    return yaml.safe_load(re.sub(r"^# (\w+:$|  )|^( +)# (- |  )", r"\1\2\3", text, flags=re.MULTILINE))


def together(one: Any, other: Any) -> Any:
    """Both parts as one file."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: together(one[key], value) if key in one else value for key, value in other.items()}}
    if isinstance(one, list) and isinstance(other, list):
        return [together(*pair) for pair in zip(one, other, strict=True)]
    return other


def all_written_out() -> Any:
    ordinary, rare = parts()
    return together(written_out(ordinary), written_out(rare))


def has(plain: Any, path: tuple[str, ...]) -> bool:
    if not path:
        return True
    step, *rest = path
    if step == ANY:
        items = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ()
        return any(has(item, tuple(rest)) for item in items)
    return isinstance(plain, dict) and step in plain and has(plain[step], tuple(rest))


def test_the_walk_goes_into_sections_of_sections_lists_and_mappings() -> None:
    found = {key.path for key in keys()}
    assert ("backup", "consistency", "mode") in found
    assert ("stores", ANY, "kind") in found
    assert ("drill", "process", "instances", ANY, "url") in found
    assert ("reprocess", "process", "slots", ANY, "instances", ANY, "name") in found
    assert ("runs", "process", "control", "token_file") in found


def test_the_reference_has_every_key() -> None:
    plain = all_written_out()
    assert missing({key.name for key in keys() if has(plain, key.path)}) == []


def test_the_reference_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "reference.yaml"
    ordinary, rare = parts()
    path.write_text(yaml.safe_dump(together(yaml.safe_load(ordinary), yaml.safe_load(rare))), encoding="utf-8")
    # Of the same name: it decides the minute of a default schedule.
    bare = tmp_path / "same" / path.name
    bare.parent.mkdir()
    bare.write_text(MINIMAL, encoding="utf-8")
    full, least = load(path, {}), load(bare, {})
    defaults = [name for name, field in ApplicationConfig.model_fields.items() if isinstance(field.default, Section)]
    assert {"source", "restore", "check", "run"} <= set(defaults)
    for section in (*defaults, "backup"):
        assert getattr(full, section) == getattr(least, section)


def test_the_sections_that_the_reference_has_as_comments_are_looked_at() -> None:
    plain = all_written_out()
    assert all(isinstance(plain[name], dict) for name in ("drill", "reprocess", "clone", "sites"))
    assert plain["monitor"]["notify"][0]["notifier"]


def is_ordinary_way(key: Key) -> bool:
    """True if the key and all sections around it are ordinary."""
    return all(is_ordinary(one.section.__name__, one.path[-1]) for one in keys() if one.path == key.path[: len(one.path)])


def test_the_first_part_has_the_ordinary_keys_and_no_others_and_they_are_few(tmp_path: Path) -> None:
    text, rare = parts()
    plain = written_out(text)
    ordinary = {key.path for key in keys() if is_ordinary_way(key)}
    assert {key.path for key in keys() if has(plain, key.path)} == ordinary
    leaves = [path for path in ordinary if not any(other[: len(path)] == path and other != path for other in ordinary)]
    assert 40 <= len(leaves) <= 60
    names = {("runs", "process", "instances", ANY, "name")}
    assert {key.path for key in keys() if key.leaf and has(written_out(rare), key.path)} & ordinary == names, "said once"
    # By itself it is a configuration.
    (path := tmp_path / "first.yaml").write_text(text, encoding="utf-8")
    assert load(path, {}).runs.kind == "process"


def test_each_ordinary_key_is_a_key() -> None:
    found = {key.name for key in keys()}
    assert {f"{section}.{key}" for section, names in ORDINARY.items() for key in names} <= found


def test_the_schema_says_what_is_ordinary() -> None:
    schema = json.loads((CONFIGS / "application.schema.json").read_text(encoding="utf-8"))
    retention = schema["$defs"]["Retention"]["properties"]
    assert (schema["properties"]["spark"]["x-use"], retention["keep_daily"]["x-use"], retention["work_days"]["x-use"]) == (
        "rare",
        "ordinary",
        "rare",
    )


def test_the_schema_has_every_key() -> None:
    schema = json.loads((CONFIGS / "application.schema.json").read_text(encoding="utf-8"))
    known = {ApplicationConfig.__name__: schema, **schema["$defs"]}
    found = {f"{section}.{key}" for section, what in known.items() for key in what.get("properties", ())}
    assert missing(found) == []


def blocks(text: str) -> dict[str, str]:
    """The text about each section by its name. A line that begins with a section's name in bold begins the text about one in it."""
    found: dict[str, str] = {"": text.split("\n## Keys\n")[1].split("\n### ", maxsplit=1)[0]}
    for chapter in text.split("\n### ")[1:]:
        heading, _, body = chapter.partition("\n")
        first, *parts = re.split(r"^(?=\*\*\w+\*\*:)", body, flags=re.MULTILINE)
        for name in heading.split(", "):
            found[name] = first
            for part in parts:
                found[f"{name}.{part.split('**')[1]}"] = part
    return found


def named(line: str) -> set[str]:
    """The keys that a line names. ``.b`` behind ``a.x`` is ``a.b``."""
    found, before = set(), ""
    for token in re.findall(r"`([^`]+)`", line):
        key = token.split(":")[0]
        if key.startswith(".") and "." in before:
            key = before.rpartition(".")[0] + key
        found.add(key)
        before = key
    return found


def documented(key: Key, found: dict[str, str]) -> bool:
    path = key.path
    place = next((".".join(path[:size]) for size in (2, 1) if ".".join(path[:size]) in found and len(path) > size), "")
    steps = path[len(place.split(".")) if place else 0 :]
    rest = ".".join(steps).removeprefix(f"{ANY}.").replace(f".{ANY}", "[]")
    for line in found[place].splitlines():
        # A row is about what is in its first cell. A section that has no rows of its own is told of in one row.
        about = line.split("|")[1] if line.startswith("|") else line
        if {rest, f"{place}.{rest}"} & named(about) or (len(steps) > 1 and {step for step in steps if step != ANY} <= named(line)):
            return True
    return False


def test_the_documentation_has_every_key() -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"))
    inside = {key.name for key in keys() if not key.leaf}
    assert missing({key.name for key in keys() if key.leaf and documented(key, found)} | inside) == []


@pytest.mark.parametrize(
    ("path", "row"),
    [
        (("check", "level"), "| `level` | |"),
        (("backup", "consistency", "mode"), "| `consistency.mode` | |"),
        (("runs", "process", "instances", ANY, "url"), "| `instances[].name`, `.url` | |"),
        (("stores", ANY, "kind"), "| `kind` | |"),
        (("drill", "process", "directory"), "| `process` | needs `directory` |"),
        (("source", "connection"), "| `source.connection` | |"),
    ],
)
def test_a_key_is_documented_by_its_own_name_in_its_own_section(path: tuple[str, ...], row: str) -> None:
    key = Key(section=Section, path=path, leaf=True)
    place = "runs.process" if path[0] == "runs" else path[0]
    assert documented(key, {"": "", place: row})
    assert not documented(key, {"": "", place: row.replace("`", "")})
    assert not documented(key, {"": row, place: "", "other": row})


def test_a_key_that_a_row_only_mentions_is_not_documented() -> None:
    assert not documented(Key(section=Section, path=("check", "level"), leaf=True), {"": "", "check": "| `schedule` | | see `level` |"})
