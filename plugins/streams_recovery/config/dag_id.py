"""The name of a configuration as it can be in ids and tags of Airflow."""

from __future__ import annotations

import hashlib
import re

from streams_recovery.config.fields import MAX_NAME

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_.-]")


def id_of(name: str) -> str:
    """A file's stem as it can stand in an id or a tag of Airflow: a file that is not well named has to be shown too."""
    plain = _NOT_IN_IDS.sub("_", name)[:MAX_NAME]
    # Two names must not become one.
    return plain if plain == name else f"{plain[: MAX_NAME - 9]}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
