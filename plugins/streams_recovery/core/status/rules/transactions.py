"""Transactions that stay open."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from streams_recovery.core.status.facts import Observed, PartName, TransactionState
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.text.units import span

HANGING, LONG = "transaction-hanging", "transaction-long"


def _find(observed: Observed, limits: Limits) -> Iterator[StatusFinding]:
    for one in observed.cluster.transactions if observed.cluster else ():
        where = f"{one.topic}-{one.partition}"
        held = f"a transaction on {where} from offset {one.start_offset} on"
        remedies = [_abort(observed, one)]
        if one.transactional_id is None:
            yield finding(
                HANGING,
                Severity.CRITICAL,
                f"{held} hangs: no coordinator knows it, so it never ends by itself. No exact savepoint can be taken, and readers of committed records stop "
                "there",
                subject=where,
                remedies=remedies,
                numbers={"start_offset": float(one.start_offset)},
            )
        elif one.age_seconds is not None and one.age_seconds > limits.transaction_age:
            yield finding(
                LONG,
                Severity.WARNING,
                f"{held} of {one.transactional_id} is open for {span(one.age_seconds)}",
                subject=where,
                remedies=remedies,
                numbers={"age_seconds": one.age_seconds, "limit_seconds": limits.transaction_age, "start_offset": float(one.start_offset)},
            )


def _abort(observed: Observed, one: TransactionState) -> str:
    servers = observed.cluster.bootstrap_servers if observed.cluster else ""
    words = ["kafka-transactions.sh", "--bootstrap-server", servers, "abort", "--topic", one.topic]
    return shlex.join([*words, "--partition", str(one.partition), "--start-offset", str(one.start_offset)])


RULE = Rule(kinds=(HANGING, LONG), parts=(PartName.CLUSTER,), find=_find)
