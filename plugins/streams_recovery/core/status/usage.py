"""Whether an application is in use. The target of a clone or of a point in time is configured long before anything of it exists."""

from __future__ import annotations

from streams_recovery.core.status.facts import ClusterFacts, ObservedApplication, RepositoryFacts


def seen_in_use(observed: ObservedApplication) -> bool:
    """True when something of the application was seen now: a schedule, a savepoint, a run, a consumer group, an internal topic or an instance."""
    return (
        observed.schedules.savepoints is not None
        or observed.newest is not None
        or (observed.repository is not None and _stored(observed.repository))
        or (observed.cluster is not None and _on_the_cluster(observed.cluster))
        or any(instance.state == "running" for instance in observed.application or ())
    )


def unused(observed: ObservedApplication) -> bool:
    """True when all was looked at and nothing of the application was found, now or in earlier looks. What existed once and is gone was lost."""
    if observed.used_before or observed.repository is None or observed.cluster is None or observed.application is None:
        return False
    return not seen_in_use(observed) and all(instance.state == "gone" for instance in observed.application)


def _stored(facts: RepositoryFacts) -> bool:
    left_behind = (facts.damaged, facts.forged, facts.restores, facts.quarantines, facts.holds, facts.last_run, facts.lock, facts.quiesce)
    return any(left_behind)


def _on_the_cluster(facts: ClusterFacts) -> bool:
    return facts.group.kind != "absent" or any(topic.role.internal for topic in facts.topics)
