"""An application as a cluster shows it, and the description of one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.draft.seen import ApplicationSeen
from streams_recovery.core.savepoint.topology import AttributionFacts, attributed

DESCRIPTION: Final = """Topologies:
   Sub-topology: 0
    Source: S (topics: [in])
      --> P
    Processor: P (stores: [totals])
      --> R, K, D
      <-- S
    Sink: R (topic: by-key-repartition)
      <-- P
    Sink: K (topic: out)
      <-- P
    Sink: D (extractor class: lambda)
      <-- P

   Sub-topology: 1 for global store (will not generate tasks)
    Source: G (topics: [rates])
      --> GP
    Processor: GP (stores: [rates-store])
      --> none
      <-- G
"""


def application(
    application_id: str,
    *topics: str,
    kind: ApplicationKind = ApplicationKind.KAFKA_STREAMS,
    others: Collection[str] = (),
    committed: Collection[str] = (),
    **facts: Any,
) -> ApplicationSeen:
    """With these topics on its cluster, beside ``others``, which are applications too."""
    known = AttributionFacts(application_id=application_id, kind=kind, committed=committed, groups=others)
    internal = {name: found for name in sorted(topics) if (found := attributed(name, known)) is not None}
    return ApplicationSeen(
        application_id=application_id, kind=kind, existing=frozenset(topics), committed=frozenset(committed), internal=internal, **facts
    )
