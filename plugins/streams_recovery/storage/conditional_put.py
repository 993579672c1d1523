"""Creating an object exactly once over a connection that loses replies.

A request whose reply is lost may have succeeded; sent again, it is refused because the object exists. To tell one's own object from somebody
else's, every creation carries a token of its own, and only a refusal after a lost reply is looked into: the first answer is believed.
"""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from obstore import exceptions

from streams_recovery.storage.errors import passes, status_of

_LONGEST_SECONDS = 15.0
_CONFLICT = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a request is sent. The pause before the next one doubles from ``first_seconds`` on, and is never the same for two writers."""

    attempts: int = 7
    first_seconds: float = 0.2

    def pause(self, failed: int) -> float:
        """Seconds to wait after so many failures."""
        longest = min(_LONGEST_SECONDS, self.first_seconds * 2 ** (failed - 1))
        return secrets.SystemRandom().uniform(longest / 2, longest)


def create_once(put: Callable[[str], object], is_mine: Callable[[str], bool | None], retries: Retries) -> bool:
    """Call ``put`` with a new token until it is known how it ended. True: the object is there, and it is this call's. False: another one's is.

    ``is_mine`` looks whether the object carries the token, None when there is no object. Raises what ``put`` raised last when every attempt
    failed and no object can be seen, and at once what no other attempt can change.
    """
    token, unanswered = uuid.uuid4().hex, False
    for failed in range(1, retries.attempts + 1):
        try:
            put(token)
        except exceptions.AlreadyExistsError as error:
            # A conflict says that somebody is writing there at this moment, not that anything exists.
            if status_of(error) != _CONFLICT:
                return unanswered and is_mine(token) is True
            last: Exception = error
        except (exceptions.BaseError, OSError) as error:
            if not passes(error):
                raise
            unanswered, last = True, error
        else:
            return True
        if failed < retries.attempts:
            time.sleep(retries.pause(failed))
    with contextlib.suppress(exceptions.BaseError, OSError):
        found = is_mine(token)
        if found is not None:
            return found
    raise last
