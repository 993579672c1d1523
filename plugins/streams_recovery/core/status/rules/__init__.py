"""All rules. A new one stands in the file of its subject beside this one, and in the list there."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.status.facts import Rule
from streams_recovery.core.status.rules import archive, cluster, outputs, repository, savepoints

RULES: Final[tuple[Rule, ...]] = (*savepoints.RULES, *archive.RULES, *repository.RULES, *cluster.RULES, *outputs.RULES)
