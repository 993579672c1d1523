"""The application that processes one interval again, as a configuration like any other."""

from __future__ import annotations

import re
from typing import Final

from streams_recovery.config.drill_application import drilled
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid

# Between the name of an application, that of an interval and the number of a slot. No file can have such a name.
REPROCESS: Final = ":reprocess:"
_INTERVAL = re.compile(r"(\d{8}T\d{6}(?:\.\d{3})?Z):(\d{1,2})")


def reprocessing_name(name: str, interval: str, slot: int) -> str:
    """What the application of an interval is called where a configuration is named."""
    return f"{name}{REPROCESS}{interval}:{slot}"


def reprocessed(config: ApplicationConfig, which: str) -> ApplicationConfig:
    """The configuration of the application for ``which``, an interval's name and a slot: another id, mapped topics, processes of its own; everything
    else as it is. Raises ``ConfigInvalid`` when nothing is configured for it, or it is not enabled.
    """
    reprocess, found = config.reprocess, _INTERVAL.fullmatch(which)
    if reprocess is None or not reprocess.enabled:
        raise ConfigInvalid(
            f"reprocessing is not configured for {config.name}",
            next_step="write a reprocess section; docs/configuration.md explains its keys",
        )
    if found is None:
        raise ConfigInvalid(f"{which[:60]!r} names no interval and slot", next_step="write it like 20261121T120000Z:0")
    try:
        beside = reprocess.of_interval(found[1], int(found[2]))
    except ValueError as error:
        raise ConfigInvalid(str(error), next_step="correct the reprocess section") from error
    scratch = drilled(config.model_copy(update={"drill": beside}))
    return scratch.model_copy(update={"name": f"{config.name}{REPROCESS}{which}", "reprocess": None})
