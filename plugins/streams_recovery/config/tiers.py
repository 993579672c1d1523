"""The keys that an ordinary configuration has. All others are rare: a situation in the documentation asks for them, or nothing does but an unusual cluster."""

from __future__ import annotations

from typing import Final

# By section. The schema and the reference say it of each key, and the tests hold the reference to it.
ORDINARY: Final[dict[str, frozenset[str]]] = {
    section: frozenset(names.split())
    for section, names in {
        "ApplicationConfig": "version application source topics stores storage backup archive retention monitor drill access runs",
        "Application": "id guarantee",
        "Source": "connection",
        "Topics": "inputs outputs globals",
        "Store": "kind key value",
        "Storage": "backend path bucket region account connection seal",
        "SealSection": "public_keys key_file",
        "Backup": "survive_cluster_loss schedule consistency",
        "ConsistencyPolicy": "mode fallback",
        "ArchiveSection": "enabled state",
        "Retention": "apply keep_last keep_hourly keep_daily keep_weekly keep_monthly",
        "Monitor": "objectives notify",
        "MonitorObjectives": "newest_age recovery_time loss",
        "Notify": "notifier arguments",
        "Drill": "schedule application_id topic_map process",
        "SandboxProcess": "directory environment instances",
        "Access": "show_values",
        "Runs": "kind process command kubernetes",
        "ProcessRuns": "directory command environment instances",
        "ProcessInstance": "name url state_directory",
        "CommandRuns": "status stop start wipe",
        "KubernetesRuns": "namespace workload state_directory port",
    }.items()
}


def is_ordinary(section: str, key: str) -> bool:
    """True if an ordinary configuration has this key of the section with this class name."""
    return key in ORDINARY.get(section, ())
