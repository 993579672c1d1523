"""A program that answers queries by key for an application that nobody runs, from a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROGRAM = """\
import json, sys
known = json.load(open(sys.argv[1]))
for one in (questions := json.load(sys.stdin)):
    if one["store"] not in known:
        sys.exit(5)
print(json.dumps([{"instance": "one", **known[one["store"]].get(one["key"], {"found": False})} for one in questions]))
"""


def key_program(answers: Path) -> list[str]:
    """What to name as ``query_keys`` of ``runs.command``."""
    return [sys.executable, "-c", PROGRAM, str(answers)]


def write_answers(answers: Path, stores: Mapping[str, Mapping[str, Any]]) -> None:
    """Let it answer these values of the keys of stores; every other key is not found, and another store cannot be asked."""
    found = {
        store: {
            key: value if isinstance(value, dict) and "found" in value else {"found": True, "value": value} for key, value in of.items()
        }
        for store, of in stores.items()
    }
    answers.write_text(json.dumps(found))
