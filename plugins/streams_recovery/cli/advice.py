"""What to do next, with the options of this program where it names fields of a request."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.forms import with_options
from streams_recovery.core.restore.request import ALLOW_AHEAD, ALLOW_DAMAGED, AS_OF, DELETE, IN_PLACE, REPLACE, SAFETY
from streams_recovery.core.savepoint.request import CHANGED_STATE

# Fields of requests that messages name.
_ASKED: Final = (REPLACE, DELETE, SAFETY, ALLOW_AHEAD, ALLOW_DAMAGED, AS_OF, IN_PLACE, CHANGED_STATE)


def advice(text: str) -> str:
    """What to do next, with the options of this program where it names fields of a request."""
    return with_options(text, _ASKED)
