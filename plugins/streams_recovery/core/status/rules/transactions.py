"""Transactions that stay open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams_recovery.core.next_command import shell
from streams_recovery.core.status.facts import ObservedApplication, PartName, TransactionState
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

HANGING, LONG = "transaction-hanging", "transaction-long"
_NAMED = 3


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    servers = observed.cluster.bootstrap_servers if observed.cluster else ""
    known: dict[str, list[TransactionState]] = {}
    for one in observed.cluster.transactions if observed.cluster else ():
        if one.transactional_id is None:
            yield _hanging(servers, one)
        else:
            known.setdefault(one.transactional_id, []).append(one)
    for transactional_id, parts in known.items():
        ages = [one.age_seconds for one in parts if one.age_seconds is not None]
        if ages and max(ages) > limits.transaction_age:
            yield _long(servers, transactional_id, parts, max(ages), limits.transaction_age)


def _hanging(servers: str, one: TransactionState) -> StatusFinding:
    """Nobody ends it, and no other partition waits for what becomes of it: it may be aborted where it is."""
    where = str(one.tp)
    words = ["kafka-transactions.sh", "--bootstrap-server", servers, "abort", "--topic", one.tp.topic]
    return finding(
        HANGING,
        Severity.CRITICAL,
        f"a transaction on {where} from offset {one.start_offset} on hangs: no coordinator knows it, so it never ends by itself. No exact savepoint can be "
        "taken, and readers of committed records stop there",
        subject=where,
        remedies=[shell(*words, "--partition", str(one.tp.partition), "--start-offset", str(one.start_offset))],
        numbers={"start_offset": float(one.start_offset)},
    )


def _long(servers: str, transactional_id: str, parts: Sequence[TransactionState], age: float, limit: float) -> StatusFinding:
    """One finding for all of its partitions. Its coordinator ends it as a whole: aborted on one partition alone, it could be committed on the others."""
    where = ", ".join(str(one.tp) for one in parts[:_NAMED]) + (" and others" if len(parts) > _NAMED else "")
    words = ["kafka-transactions.sh", "--bootstrap-server", servers, "describe", "--transactional-id", transactional_id]
    return finding(
        LONG,
        Severity.WARNING,
        f"transaction {transactional_id} is open for {span(age)}, on {where}. It ends with its producer, at the latest when its time-out is over",
        subject=transactional_id,
        remedies=[shell(*words)],
        numbers={"age_seconds": age, "limit_seconds": limit, "partitions": float(len(parts))},
    )


RULE = Rule(kinds=(HANGING, LONG), parts=(PartName.CLUSTER,), find=_find)
