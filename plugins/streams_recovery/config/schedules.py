"""Cron expressions with ``H``, as in Jenkins: a value that the name of the application decides, so that many applications do not start at one minute."""

from __future__ import annotations

import re
from typing import Any, Final

from croniter import croniter

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.rules import AFTER_SAVEPOINTS

_SCHEDULED: Final = ("backup", "retention", "check", "compact", "drill", "run", "monitor")


def resolved(config: ApplicationConfig) -> ApplicationConfig:
    """The configuration with a plain cron expression in each section that has a schedule."""
    sections: dict[str, Any] = {name: getattr(config, name) for name in _SCHEDULED}
    changed = {
        name: section.model_copy(update={"schedule": plain(section.schedule, config.name, name)})
        for name, section in sections.items()
        if section is not None and section.schedule is not None
    }
    mirror = config.storage.mirror
    if mirror is not None and mirror.schedule not in (None, AFTER_SAVEPOINTS):
        planned = mirror.model_copy(update={"schedule": plain(str(mirror.schedule), config.name, "mirror")})
        changed["storage"] = config.storage.model_copy(update={"mirror": planned})
    return config.model_copy(update=changed)


def plain(expression: str, name: str, section: str) -> str:
    """``expression`` with a number for each ``H``: always the same one for one application and one section of its configuration."""
    fields = expression.split()
    if not any(_is_hashed(field) for field in fields):
        return expression
    numbers, _ = croniter.expand(expression, hash_id=f"{name}/{section}".encode())
    return " ".join(
        ",".join(str(number) for number in found) if _is_hashed(field) else field for field, found in zip(fields, numbers, strict=True)
    )


def _is_hashed(field: str) -> bool:
    return re.match(r"H\b", field, re.IGNORECASE) is not None
