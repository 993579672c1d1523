"""Local key-encryption keys, and the section that names them."""

from __future__ import annotations

import base64
import os
from pathlib import Path


def new_key(path: Path) -> Path:
    """A new key in a file that only its user can read."""
    path.write_bytes(base64.b64encode(os.urandom(32)))
    path.chmod(0o600)
    return path


def by(*files: Path, mirror: Path | None = None) -> dict[str, object]:
    """The section for the keys in these files, and for one of the second place."""
    own = [] if mirror is None else [{"key": "local", "key_file": str(mirror), "mirror": True}]
    return {"keys": [*({"key": "local", "key_file": str(file)} for file in files), *own]}
