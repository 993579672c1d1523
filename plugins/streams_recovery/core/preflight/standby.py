"""What a site lacks that an application would fail over to: inputs that nobody carries there, space on its disks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streams_recovery.core.kafka_types import TopicDescription, TopicRole
from streams_recovery.core.preflight.findings import PreflightFinding, blocking_finding, warning
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.words import first_names, size

# What is left of a disk that is nearly full.
_TIGHT = 2


def inputs_there(
    images: Mapping[str, TopicImage], described: Mapping[str, TopicDescription], unseen: Collection[str]
) -> list[PreflightFinding]:
    """Inputs and global topics, by their names there, that could not be read there: gone without being in savepoints, or with other partitions. Those that are
    ``unseen`` may be there.
    """
    read = {name: image for name, image in images.items() if image.role in (TopicRole.INPUT, TopicRole.GLOBAL)}
    gone = [name for name, image in read.items() if name not in described and name not in unseen and not image.archived]
    other = {
        name: (found.partitions, len(image.partitions))
        for name, image in read.items()
        if image.role is TopicRole.INPUT and (found := described.get(name)) is not None and found.partitions != len(image.partitions)
    }
    findings = []
    if gone:
        findings.append(
            blocking_finding(
                "inputs",
                f"{first_names(gone)} {'is' if len(gone) == 1 else 'are'} not there, and the records are in no savepoint",
                "mirror these topics to that cluster, name them in topic_map of the site if they have other names there, or set "
                "backup.survive_cluster_loss: true",
            )
        )
    if other:
        named = first_names([f"{name} has {found} partitions there and {saved} in the savepoint" for name, (found, saved) in other.items()])
        findings.append(
            blocking_finding(
                "partitions", named, "give them as many partitions there: keys would go to other tasks than those that have their state"
            )
        )
    return findings


def bytes_to_make(images: Mapping[str, TopicImage], described: Collection[str]) -> int:
    """About how many bytes a restore would write there, replicas included: state, and what is in the savepoint of inputs that are not ``described``. Rather
    too much than too little.
    """
    made = [image for name, image in images.items() if image.archived and (image.role.internal or name not in described)]
    return sum(
        image.replication_factor * facts.rows * facts.payload_a_row
        for image in made
        for facts in (partition.ranges.facts for partition in image.partitions)
    )


def space_there(needed: int, free: int | None) -> list[PreflightFinding]:
    """Whether the disks of all brokers have room. ``free`` is None where the brokers do not tell."""
    if free is None or needed * _TIGHT <= free:
        return []
    text = f"a restore writes about {size(needed)} there, replicas included, and the disks of the brokers have {size(free)} free"
    remedy = "give the brokers of that cluster more room"
    return [blocking_finding("space", text, remedy) if needed > free else warning("space", text, remedy)]
