"""What a configuration archives, held against what its savepoints are to be good for."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import Profile, TopicRole
from streams_recovery.core.names import matches_any
from streams_recovery.core.savepoint.topology import Declared


def archive_problems(declared: Declared) -> Iterator[str]:
    """Everything that would make savepoints useless for what they are taken for."""
    excluded = [name for name in (*declared.inputs, *declared.globals) if matches_any(name, declared.exclude)]
    if declared.all_read and excluded:
        yield (
            f"topics.exclude takes {', '.join(excluded)} out of savepoints that are to survive the loss of the cluster, and without these records none "
            "would: correct topics.exclude, or set backup.survive_cluster_loss: false"
        )
    missing = [name for name in declared.inputs if not declared.archives(name, TopicRole.INPUT)]
    if declared.profile is Profile.MINIMAL and missing:
        yield (
            f"backup.profile: minimal leaves the state out, to be built again from the input, and the records of {', '.join(missing)} are not archived: "
            "set backup.survive_cluster_loss: true, name them in topics.include, or use profile full"
        )
