"""The list of restore strategies. Each is a file of its own: what a person asks for, and what is restored then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from streams_recovery.operations.restore.strategies.as_of_moment import AsOfMoment
from streams_recovery.operations.restore.strategies.failover import Failover
from streams_recovery.operations.restore.strategies.from_savepoint import FromSavepoint
from streams_recovery.operations.restore.strategies.interval import OfInterval
from streams_recovery.operations.restore.strategies.rebuild import Rebuild
from streams_recovery.operations.restore.strategies.rescale import Rescale
from streams_recovery.operations.restore.strategies.single_topics import RestoreTopics
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy
from streams_recovery.operations.restore.strategies.undo import Undo, undo_refused
from streams_recovery.operations.restore.strategies.upgrade import UpgradeInPlace

RestoreRequest = FromSavepoint | Undo | Rebuild | AsOfMoment | OfInterval | RestoreTopics | Failover | UpgradeInPlace | Rescale
STRATEGIES: Final[Mapping[str, type[RestoreRequest]]] = {strategy.KIND: strategy for strategy in get_args(RestoreRequest)}

__all__ = [
    "STRATEGIES",
    "AsOfMoment",
    "Failover",
    "FromSavepoint",
    "OfInterval",
    "Rebuild",
    "Rescale",
    "RestoreRequest",
    "RestoreStrategy",
    "RestoreTopics",
    "Undo",
    "UpgradeInPlace",
    "undo_refused",
]
