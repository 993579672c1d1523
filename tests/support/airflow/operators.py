"""The operators of the package, each with the step that it takes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from streams_recovery import operators
from streams_recovery.workflows.step import Step


def modules(package: Any) -> list[Any]:
    """All modules of a package."""
    return [importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)]


def operator_classes() -> set[Any]:
    """Every operator that takes a step."""
    return {
        found
        for module in modules(operators)
        for found in vars(module).values()
        if inspect.isclass(found) and found.__module__ == module.__name__ and isinstance(getattr(found, "takes", None), Step)
    }
