"""Arrow without what it brings along."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:  # noqa: ARG002  # as Python calls it
        """Nothing, so that other finders are asked; an error for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


def without_pandas() -> None:
    """Let Arrow know that this process hands it nothing of pandas. With the first list that it is given Arrow looks once for pandas and imports it: a quarter
    of all that a worker imports. Who imports pandas later gets it.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
