"""Looking around before a savepoint or a restore: missing rights and unsafe settings, all of them at once. Changes nothing.

What is found is judged by the pure functions of ``core.needs``, ``core.rights`` and ``core.preflight``; here their facts are gathered, as far as
the connection's user may see them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.kafka_types import Guarantee, Profile, QuiesceMode, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.names import internal_role
from streams_recovery.core.preflight import checks as judge
from streams_recovery.core.preflight.acls import TopicInUse, backup_needs, restore_needs
from streams_recovery.core.preflight.checks import ApplicationFacts, TopicFacts
from streams_recovery.core.preflight.findings import Obstacle, Severity, required
from streams_recovery.core.preflight.permissions import (
    ALTER_CONFIGS,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    Answer,
    Need,
    ResourceKind,
    Rights,
    missing,
)
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.restore.placement import target_name
from streams_recovery.core.restore.plan import RestoreRequest, SafetyPolicy
from streams_recovery.engine.rpc import rpc_settings, spark_defaults
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.discovery import internal_topics


def before_backup(bench: Workbench, mode: QuiesceMode | None = None) -> tuple[Obstacle, ...]:
    """What stands against, or weakens, a savepoint taken now. ``mode`` overrides the configured way of holding the application."""
    roles, probe = _known(bench), _probe(bench)
    rights = bench.cluster.rights([*roles, probe], bench.application_id)
    facts = _topic_facts(bench, roles, _described(bench, roles, rights))
    topics = [_in_use(bench, name, role, facts.get(name)) for name, role in sorted(roles.items())]
    policy = bench.config.backup.consistency
    stops = QuiesceMode.STOP in (mode or bench.config.quiesce_mode, policy.fallback)
    needs = backup_needs(bench.application_id, topics, stops=stops, transactional=_transactional(bench))
    unknown = [_perhaps_compacted(name) for name, role in sorted(roles.items()) if not role.internal and not _readable(rights.topics[name])]
    return (
        *_spark(bench),
        *missing([*needs, *unknown, _see_all(bench)], rights),
        *judge.before_backup(bench.cluster.facts(), facts.values(), _application_facts(bench, rights)),
        *judge.lost_with_cluster(bench.application_id, bench.config.declared(bench.config.backup.profile)),
        *(judge.stopped_by_default(bench.application_id, bench.config.no_pause_because) if mode is None and policy.mode is None else ()),
    )


def before_restore(
    bench: Workbench, manifest: Manifest | None, *, replacing: bool = False, saving: bool = True, cut: Collection[str] = ()
) -> tuple[Obstacle, ...]:
    """What stands against, or weakens, a restore of ``manifest``; without one, only what depends on no savepoint. ``replacing`` tells whether
    topics that hold records may be replaced, ``saving`` whether what is there must be saved first; inputs that are ``cut`` are made again.
    """
    images = _images(bench, manifest) if manifest else {}
    roles = {name: image.role for name, image in images.items()} if manifest else _known(bench)
    rights = bench.cluster.rights(roles, bench.application_id)
    described = _described(bench, roles, rights)
    facts = _topic_facts(bench, roles, described)
    made = {name: image for name, image in images.items() if name in cut or _is_made(image, described.get(name), rights.topics[name])}
    saves = saving and any(topic.role.internal for topic in facts.values())
    topics = [
        replace(
            _in_use(bench, name, role, facts.get(name)) if saves else TopicInUse(name=name, role=role, archived=False, compacted=False),
            made=role.internal or name in made,
        )
        for name, role in sorted(roles.items())
    ]
    lacking = (
        *_spark(bench),
        *missing(restore_needs(bench.application_id, topics, transactional=_transactional(bench)), rights),
        *_handed_over(bench, manifest),
    )
    if manifest is None:
        return lacking
    application = _application_facts(bench, rights)
    return (
        *lacking,
        *judge.before_restore(bench.cluster.facts(), manifest, made, facts.values(), application, replacing=replacing),
        *_written_again(bench, images, described),
    )


def _spark(bench: Workbench) -> tuple[Obstacle, ...]:
    """What would keep jobs from being submitted, found while the application still runs."""
    try:
        rpc_settings(bench.spark_master(), spark_defaults(), allow_insecure=bench.config.spark.allow_insecure_rpc)
    except NotFound:
        # Without the connection nothing is known of the cluster; who submits a job names it.
        return ()
    except ConfigInvalid as error:
        return (Obstacle(severity=Severity.BLOCKING, kind="spark", text=error.reason, remedy=error.next_step),)
    return ()


def _handed_over(bench: Workbench, manifest: Manifest | None) -> tuple[Obstacle, ...]:
    source = bench.application_id if manifest is None else manifest.application_id
    return judge.handed_over(bench.handovers.last(), bench.application_id, source)


def _written_again(bench: Workbench, images: Mapping[str, TopicImage], described: Mapping[str, TopicDescription]) -> tuple[Obstacle, ...]:
    outputs = {
        name: image
        for name, image in images.items()
        if image.role is TopicRole.OUTPUT and name in described and described[name].topic_id == image.topic_id
    }
    partitions = [TopicPartition(name, number) for name in outputs for number in range(described[name].partitions)]
    return judge.written_again(outputs, bench.cluster.high_watermarks(partitions))


def _images(bench: Workbench, manifest: Manifest) -> dict[str, TopicImage]:
    names = bench.config.restore.topic_map
    return {target_name(topic, manifest, bench.application_id, names): topic for topic in manifest.topics}


def _is_made(image: TopicImage, found: TopicDescription | None, allowed: Answer) -> bool:
    """True when the restore will create this topic. What may not be looked at is taken to be there: that asks for the least rights."""
    if image.role.internal:
        return True
    if found is None:
        return _readable(allowed) and (image.archived or image.role is TopicRole.OUTPUT)
    return image.role is TopicRole.INPUT and image.archived and found.topic_id != image.topic_id


def required_for_restore(bench: Workbench, manifest: Manifest, request: RestoreRequest, *, cut: Collection[str] = ()) -> tuple[str, ...]:
    """The warnings before a restore in place of ``manifest``. Raises ``Refused`` naming everything that stands against it at once. Inputs that are
    ``cut`` are made again.
    """
    found = before_restore(bench, manifest, replacing=request.replace, saving=request.safety is SafetyPolicy.REQUIRED, cut=cut)
    return required(found, f"a restore of {bench.application_id}")


def required_for_rebuild(bench: Workbench, request: RestoreRequest, archive: Manifest | None) -> tuple[str, ...]:
    """The same before a rebuild from the input. ``archive`` has the topics that are made from a savepoint where they are gone."""
    saving = request.safety is SafetyPolicy.REQUIRED
    found = before_restore(bench, None, saving=saving)
    if archive is not None:
        found = tuple(dict.fromkeys((*found, *before_restore(bench, archive, replacing=request.replace, saving=saving))))
    return required(found, f"a rebuild of {bench.application_id}")


def _probe(bench: Workbench) -> str:
    """A topic that may not be seen is absent from every list, so some questions are asked about one that does not exist."""
    return f"{bench.application_id}-preflight-changelog"


def _known(bench: Workbench) -> dict[str, TopicRole]:
    """The topics that are configured or visible. Where state is to be saved and no changelog is among them, the probe stands for it."""
    found = _configured(bench) | _visible(bench)
    seen = TopicRole.CHANGELOG in found.values() or bench.config.backup.profile is not Profile.FULL
    return found if seen else {**found, _probe(bench): TopicRole.CHANGELOG}


def _configured(bench: Workbench) -> dict[str, TopicRole]:
    """Topics that the configuration names, the changelogs of its stores among them."""
    return {**dict.fromkeys(bench.config.changelogs.values(), TopicRole.CHANGELOG), **bench.config.topics.declared}


def _visible(bench: Workbench) -> dict[str, TopicRole]:
    """Internal topics that the connection's user may see."""
    roles = ((name, internal_role(name, bench.application_id)) for name in internal_topics(bench))
    return {name: role for name, role in roles if role is not None}


def _described(bench: Workbench, roles: Mapping[str, TopicRole], rights: Rights) -> dict[str, TopicDescription]:
    """Those of the topics that exist and whose settings may be read."""
    return bench.cluster.describe_topics([name for name in roles if _readable(rights.topics[name])])


def _topic_facts(bench: Workbench, roles: Mapping[str, TopicRole], described: Mapping[str, TopicDescription]) -> dict[str, TopicFacts]:
    settings = bench.cluster.settings(described)
    return {
        name: TopicFacts(
            name=name,
            role=roles[name],
            partitions=found.partitions,
            replication_factor=found.replication_factor,
            settings=settings[name],
        )
        for name, found in described.items()
    }


def _readable(answer: Answer) -> bool:
    return answer is None or {DESCRIBE, DESCRIBE_CONFIGS} <= answer


def _in_use(bench: Workbench, name: str, role: TopicRole, facts: TopicFacts | None) -> TopicInUse:
    compacted = role is TopicRole.CHANGELOG if facts is None else "compact" in facts.settings.get("cleanup.policy", "")
    archived = bench.config.declared(bench.config.backup.profile).archives(name, role)
    return TopicInUse(name=name, role=role, archived=archived, compacted=compacted)


def _perhaps_compacted(name: str) -> Need:
    why = "if it is compacted, which cannot be seen: to keep the log cleaner away"
    operations = frozenset({ALTER_CONFIGS})
    return Need(kind=ResourceKind.TOPIC, name=name, operations=operations, why=why, advised=name, blocking=False)


def _see_all(bench: Workbench) -> Need:
    return Need(
        kind=ResourceKind.TOPIC,
        name=_probe(bench),
        operations=frozenset({DESCRIBE}),
        why="to see every internal topic: one that cannot be seen would be missing from the savepoint without a word",
        advised=f"{bench.application_id}-",
        prefixed=True,
        blocking=False,
    )


def _transactional(bench: Workbench) -> bool:
    return bench.config.application.guarantee is Guarantee.EXACTLY_ONCE_V2


def _application_facts(bench: Workbench, rights: Rights) -> ApplicationFacts:
    me = bench.application_id
    alive = tuple(instance.name for instance in bench.application.status() if instance.state is not InstanceState.GONE)
    if rights.group is not None and DESCRIBE not in rights.group:
        return ApplicationFacts(application_id=me, group_kind="unknown", client_ids=(), instances=alive)
    group = bench.groups.describe(me)
    clients = tuple(member.client_id for member in group.members)
    return ApplicationFacts(application_id=me, group_kind=group.kind, client_ids=clients, instances=alive)
