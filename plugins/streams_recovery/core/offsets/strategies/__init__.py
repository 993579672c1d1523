"""Where an application is to go on in its inputs after a restore, as a person asks for it: one line of text, the same in a configuration, a run's params
and on the command line. Nothing of it needs anything in the records themselves.

``OffsetStrategy`` is the list of all strategies. Patterns, help texts and the schema come from it.
"""

from __future__ import annotations

import re
from typing import Final, get_args

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.offsets.given_offsets import ReadFile, parse_file
from streams_recovery.core.offsets.strategies.base import ReadOffsets
from streams_recovery.core.offsets.strategies.by_time import Duration, Timestamp
from streams_recovery.core.offsets.strategies.exact import Exact
from streams_recovery.core.offsets.strategies.log_ends import Earliest, Latest
from streams_recovery.core.offsets.strategies.named import File, Specific
from streams_recovery.core.offsets.strategies.shift import OneOffset, Shift

OffsetStrategy = Exact | Earliest | Latest | Timestamp | Duration | Shift | OneOffset | Specific | File

STRATEGIES: Final[tuple[type[OffsetStrategy], ...]] = get_args(OffsetStrategy)
PATTERN: Final = "|".join(strategy.PATTERN for strategy in STRATEGIES)
HELP: Final = "; ".join(f"{strategy.FORM} ({strategy.HELP})" for strategy in STRATEGIES)
REBUILD_HELP: Final = "; ".join(f"{strategy.FORM} ({strategy.REBUILD_HELP})" for strategy in STRATEGIES if strategy.REBUILD_HELP)
SHORT_FORMS: Final = tuple(strategy.short_form() for strategy in STRATEGIES)
EXACT: Final = Exact(text=Exact.FORM)

_BY_KIND: Final = {strategy.KIND: strategy for strategy in STRATEGIES}
_NEXT_STEP: Final = f"use one of {'; '.join(strategy.FORM for strategy in STRATEGIES)}"


def parse(text: str, *, group: str, read: ReadFile) -> OffsetStrategy:
    """The strategy that ``text`` names; ``read`` is asked for the content of a file, and lines of other groups than ``group`` are passed over in it.
    Raises ``ConfigInvalid``.
    """
    return _parse(text, lambda name: parse_file(read(name), where=name, group=group))


def checked(text: str) -> str:
    """``text`` itself when a configuration may say it, as far as can be told without its file. Raises ``ConfigInvalid``."""
    _parse(text, lambda _: {})
    if not re.fullmatch(PATTERN, text):
        raise ConfigInvalid(f"{text[:80]!r} is not a strategy for offsets that a configuration may name", next_step=_NEXT_STEP)
    return text


def _parse(text: str, read: ReadOffsets) -> OffsetStrategy:
    kind, colon, argument = text.partition(":")
    strategy = _BY_KIND.get(kind)
    if strategy is None:
        raise ConfigInvalid(f"{text[:80]!r} is no strategy for offsets", next_step=_NEXT_STEP)
    alone = strategy.FORM == strategy.KIND
    if alone == bool(colon) or (not alone and not argument):
        raise ConfigInvalid(f"{text[:80]!r} is not a whole strategy for offsets", next_step=_NEXT_STEP)
    return strategy.parse(text, argument, read)
