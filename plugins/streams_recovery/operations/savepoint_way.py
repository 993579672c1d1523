"""The way in which a savepoint of an application is taken now: the facts of ``core.named_transactions.way``."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.named_transactions.cut import NEEDED_VERSION, LookAgain
from streams_recovery.core.named_transactions.way import Missing, NamesFacts, SavepointWay, missing_guarantee, missing_in, way_of
from streams_recovery.kafka.application_logs import impatient_logs
from streams_recovery.kafka.named_transactions import NamedLogs
from streams_recovery.kafka.permissions import principal
from streams_recovery.operations.context import RecoveryContext, not_gone


def savepoint_way(recovery: RecoveryContext, mode: QuiesceMode | None = None) -> SavepointWay:
    """The way of a savepoint that is taken now. ``mode`` overrides the configured one. Changes nothing, and reads no more than the end of the group's partition
    of ``__consumer_offsets``. Raises what a cluster that does not answer raises.
    """
    return way_of(mode or recovery.config.quiesce_mode, running=bool(not_gone(recovery)), missing=missing_for_names(recovery))


def missing_for_names(recovery: RecoveryContext) -> Missing | None:
    """The first condition of a savepoint by the names of transactions that is not met, None if one can be taken while the application works."""
    return missing_guarantee(recovery.config.application.guarantee) or missing_in(_names_facts(recovery))


def _names_facts(recovery: RecoveryContext) -> NamesFacts:
    connection = recovery.connection
    with (
        impatient_logs(recovery.application_id, connection, recovery.cluster, recovery.clock) as logs,
        NamedLogs(connection, logs) as names,
    ):
        version = names.version()
        facts = NamesFacts(tools=connection.tools, principal=principal(connection), version=version)
        if version < NEEDED_VERSION:
            return facts
        try:
            return replace(facts, recent=names.recent())
        except NotFound:
            return replace(facts, unreadable="the cluster does not show it")
        except Refused as error:
            return replace(facts, unreadable=error.reason, refused=True)
        except LookAgain:
            # Busy, or cleaned while it was read: the cut asks again.
            return facts
