"""Field types whose rules other parts of the software know: schedules, offsets, levels of a check, limits of a run.

They are apart from ``fields`` for speed. Programs that hold an application while a savepoint is taken import ``fields``, and each of them starts anew. The
imports of this module would double their time.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from croniter import CroniterBadDateError, croniter
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from streams_recovery.config.fields import accepted_by, explained
from streams_recovery.core import scheduled_run
from streams_recovery.core.offsets import strategies
from streams_recovery.core.repository.check import parse_level

# Work grows with its length.
_MOST_CRON = 200
_RANDOM = re.compile(r"(^|\s)R(\(|/|\s|$)", re.IGNORECASE)
# H in a schedule is a number that depends on a name. Any name tells whether the rest is right.
_ANY_NAME = b"name"


def _schedule(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() == "none":
        return None
    if isinstance(value, str) and len(value) > _MOST_CRON:
        raise ValueError(f"a cron expression has at most {_MOST_CRON} characters, this one has {len(value)}")
    # R is another number each time the file is read.
    if isinstance(value, str) and (not croniter.is_valid(value, hash_id=_ANY_NAME) or _RANDOM.search(value)):
        raise ValueError(
            'is not a cron expression; write five fields in quotes, such as "0 * * * *", or "H * * * *" for a minute of its own, '
            "or none for by hand only"
        )
    if isinstance(value, str):
        _next(value)
    return value


def _next(expression: str) -> None:
    try:
        croniter(expression, hash_id=_ANY_NAME).get_next()
    except CroniterBadDateError as error:
        raise ValueError(f"{expression!r} is a day that never comes; write none for by hand only") from error


def _cron(value: Any) -> Any:
    if _schedule(value) is None or (isinstance(value, str) and not croniter.is_valid(value)):
        raise ValueError('needs a cron expression without H; write five fields in quotes, such as "0 0 * * *"')
    return value


Schedule = Annotated[str | None, BeforeValidator(_schedule)]
# The schedule of work that follows each savepoint.
AFTER_SAVEPOINTS: Final = "savepoints"
ScheduleBehindSavepoints = Annotated[str | None, BeforeValidator(lambda value: value if value == AFTER_SAVEPOINTS else _schedule(value))]
Cron = Annotated[str, BeforeValidator(_cron)]
Level = Annotated[str, AfterValidator(accepted_by(parse_level))]
RunLimit = Annotated[str, AfterValidator(explained(lambda value: scheduled_run.parse_limit(value).text))]
OffsetRule = Annotated[
    str,
    AfterValidator(explained(strategies.checked)),
    WithJsonSchema({"type": "string", "pattern": rf"^({strategies.PATTERN}|.*\$\{{.*)$"}),
]
