"""The strategy for offsets and the moment that a run requests, or else those of the configuration. A file of offsets is read here."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.given_offsets import MAX_FILE_BYTES, ReadFile
from streams_recovery.core.offsets.strategies import OffsetStrategy, parse
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.words import EPOCH, parse_moment

# In place of a moment: the one of the configuration.
CONFIGURED = "configured"


def offset_strategy(config: ApplicationConfig, requested: str, *, read: ReadFile) -> OffsetStrategy:
    """The strategy that was ``requested``, or the configured one when that is empty. Raises ``ConfigInvalid``."""
    return parse(requested or config.restore.consumer_group_strategy, group=config.application.id, read=read)


def inside(directory: Path) -> ReadFile:
    """Reads files of this directory only: a name may come from a person who may start runs but not read the worker's files."""

    def read(name: str) -> bytes:
        place = (directory / name).resolve()
        if Path(name).is_absolute() or not place.is_relative_to(directory.resolve()):
            raise ConfigInvalid(f"file {name[:80]!r} is not in {directory}", next_step="put the file of offsets there and give its name")
        return anywhere(str(place))

    return read


def anywhere(name: str) -> bytes:
    """Reads any file. Raises ``ConfigInvalid``."""
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            f"file {name[:200]!r} cannot be read: {error}", next_step="check its name and that this user may read it"
        ) from error


def as_of(config: ApplicationConfig, requested: str, by: str) -> AsOf:
    """The moment that was ``requested``, or the configured one when that is empty or says so. Raises ``ConfigInvalid`` when there is neither."""
    configured = config.restore.time_window_end
    requested = "" if requested == CONFIGURED else requested
    if not requested.strip() and configured is None:
        raise ConfigInvalid(
            "no moment is given", next_step="name one with its time zone, such as 2026-11-21T12:00:00Z, or set restore.time_window_end"
        )
    moment = parse_moment(requested) if requested.strip() or configured is None else (configured - EPOCH) // timedelta(milliseconds=1)
    return AsOf(moment=moment, by=CutBy(by))
