"""Looking around before a savepoint or a restore: missing rights and unsafe settings, all of them at once. Changes nothing.

The pure functions of ``core.preflight`` judge what is found. Their facts are gathered here, as far as the connection's user may see them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from streams_recovery.core.checks.catalogue import before_run
from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.facts import Facts, TopicFacts
from streams_recovery.core.checks.runs import HOLD, MEMBERS, STRANGERS, WRITER, MemberFacts, PauseFacts, WriterFacts
from streams_recovery.core.checks.savepoints import AHEAD, HANGING, SEALS, UNATTRIBUTED, AttributionGaps, FutureRecords, HangingFacts
from streams_recovery.core.errors import ConfigInvalid, KeyServiceUnavailable, NotFound, RecoveryError, Refused, StoreUnsuitable
from streams_recovery.core.kafka_types import Guarantee, Profile, QuiesceMode, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.preflight import checks as judge
from streams_recovery.core.preflight.checks import inputs_there
from streams_recovery.core.preflight.findings import (
    ApplicationFacts,
    PreflightFinding,
    as_findings,
    blocking,
    refused,
    required,
    warning,
)
from streams_recovery.core.preflight.permissions import (
    DESCRIBE,
    DESCRIBE_CONFIGS,
    Answer,
    ResourceKind,
    Rights,
    TopicInUse,
    backup_needs,
    missing,
    perhaps_compacted,
    restore_needs,
    see_all,
)
from streams_recovery.core.remedies.remedy import as_refused
from streams_recovery.core.remedies.restores import more_brokers_there
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.repository.ownership import contradictions
from streams_recovery.core.restore.failover import fewer_replicas
from streams_recovery.core.restore.outputs_behind import outputs_behind
from streams_recovery.core.restore.rebuild import target_name
from streams_recovery.core.restore.request import Safeguards, SafetyPolicy
from streams_recovery.core.savepoint.topology import Attribution, Declared
from streams_recovery.core.words import command
from streams_recovery.engine.master import kubernetes_settings, rpc_settings, spark_defaults
from streams_recovery.kafka.application_logs import impatient_logs
from streams_recovery.operations.bring_down import roll_of, settled_roll
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import attributions, other_groups
from streams_recovery.operations.ownership import refuse_stop
from streams_recovery.operations.room import room_here, space_of_brokers
from streams_recovery.operations.savepoint_way import savepoint_way
from streams_recovery.operations.topic_facts import facts_of, topic_facts
from streams_recovery.segments.checked import encryption_of_parquet

# The kinds of what is found about the store, and about the key that encrypts what is stored.
STORE = "store"
KEYS = "keys"


def before_backup(recovery: RecoveryContext, mode: QuiesceMode | None = None) -> tuple[PreflightFinding, ...]:
    """Findings that block or weaken a savepoint taken now. ``mode`` overrides the configured way of holding the application."""
    whose = attributions(recovery)
    known, probe, hidden = _known(recovery, whose), _probe(recovery), _perhaps_hidden(recovery)
    rights = recovery.cluster.rights([*known, *hidden, probe], recovery.application_id)
    # One that may be seen and is in no list has been deleted just now.
    roles = known | {name: TopicRole.INPUT for name in hidden if not _readable(rights.topics[name])}
    facts = topic_facts(recovery, roles, _described(recovery, roles, rights), whose)
    shared = _shared(recovery, whose)
    topics = [_in_use(recovery, name, role, facts.get(name)) for name, role in sorted(roles.items()) if not (shared and name == probe)]
    policy = recovery.config.backup.consistency
    stops = recovery.config.may_stop(mode or recovery.config.quiesce_mode)
    needs = backup_needs(recovery.application_id, topics, stops=stops, transactional=_transactional(recovery), shared=shared)
    declared = recovery.config.declared(recovery.config.backup.profile, roles)
    unknown = [perhaps_compacted(name) for name, role in sorted(roles.items()) if not role.internal and not _readable(rights.topics[name])]
    return (
        *recovery.application.preflight(stops=stops),
        *_spark(recovery),
        *missing([*needs, *unknown, see_all(recovery.application_id, probe, blocking=shared and probe in known)], rights),
        *as_findings(before_run(Occasion.SAVEPOINT, _asked_of(recovery, facts.values(), mode))),
        *_strangers(recovery, rights, Occasion.SAVEPOINT, refused=policy.unknown_members == "refuse" and _held(recovery, mode)),
        *_hanging(recovery, facts.values(), Occasion.SAVEPOINT),
        *_guarantee(recovery, facts.values(), mode),
        *_unattributed(recovery, whose, Occasion.SAVEPOINT),
        *_ahead(recovery),
        *judge.lost_with_cluster(recovery.application_id, declared),
        *_unmatched(recovery, declared),
        *room_here(recovery, facts, [topic.name for topic in topics if topic.archived]),
        *(
            as_findings(HOLD.ask(Occasion.SAVEPOINT, _pause(recovery)))
            if mode is None and policy.mode is None and QuiesceMode.LIVE not in recovery.config.dialect.refused
            else ()
        ),
    )


def _asked_of(recovery: RecoveryContext, topics: Iterable[TopicFacts], mode: QuiesceMode | None) -> Facts:
    """What checks before a savepoint are asked of. The way is asked for in mode live only: for the others it is advice, which no run gives. One that cannot be
    told now has no finding: the steps ask again.
    """
    facts = facts_of(recovery, recovery.cluster.facts(), topics)
    if (mode or recovery.config.quiesce_mode) is not QuiesceMode.LIVE:
        return facts
    try:
        return replace(facts, way=savepoint_way(recovery, mode))
    except RecoveryError:
        return facts


def of_repository(recovery: RecoveryContext) -> tuple[PreflightFinding, ...]:
    """Findings about the repository, whatever is done with it."""
    return (*of_store(recovery), *as_findings(SEALS.ask(Occasion.SAVEPOINT, recovery.repository.seals is not None)))


def of_store(recovery: RecoveryContext, *, saves: bool = True) -> tuple[PreflightFinding, ...]:
    """Findings if the store cannot hold a repository, or does not let this user write there; and, for who ``saves`` records, if no key encrypts them."""
    found = []
    try:
        recovery.repository.require_suitable(recovery.application_id)
    except (StoreUnsuitable, ConfigInvalid) as error:
        found.append(refused(STORE, error))
    keyring = recovery.repository.keyring
    if saves and keyring is not None:
        try:
            encryption_of_parquet()
            keyring.probe()
        except (ConfigInvalid, KeyServiceUnavailable) as error:
            found.append(refused(KEYS, error))
        if (problem := keyring.second_problem()) is not None:
            text = f"{problem.reason}: what is saved now can be read in the second place with the keys of the first one only, until `mirror` makes up for it"
            found.append(warning(KEYS, text, as_refused(problem.next_step)))
    return tuple(found)


def before_restore(
    recovery: RecoveryContext, manifest: Manifest | None, *, replacing: bool = False, saving: bool = True, cut: Collection[str] = ()
) -> tuple[PreflightFinding, ...]:
    """Findings that block or weaken a restore of ``manifest``; without one, only those that depend on no savepoint. ``replacing`` tells whether topics that
    hold records may be replaced, ``saving`` whether what is there must be saved first; topics that are ``cut`` are made again.
    """
    images = _images(recovery, manifest) if manifest else {}
    whose = attributions(recovery)
    roles = {name: image.role for name, image in images.items()} if manifest else _known(recovery, whose)
    rights = recovery.cluster.rights(roles, recovery.application_id)
    described = _described(recovery, roles, rights)
    facts = topic_facts(recovery, roles, described, whose)
    made = {name: image for name, image in images.items() if name in cut or _is_made(image, described.get(name), rights.topics[name])}
    shared = _shared(recovery, whose)
    saves = saving and any(topic.role.internal for topic in facts.values())
    topics = [
        replace(
            _in_use(recovery, name, role, facts.get(name)) if saves else TopicInUse(name=name, role=role, archived=False, compacted=False),
            made=role.internal or name in made,
        )
        for name, role in sorted(roles.items())
        if not (shared and name == _probe(recovery))
    ]
    lacking = (
        *recovery.application.preflight(stops=True, wipes=True),
        *_spark(recovery),
        *missing(restore_needs(recovery.application_id, topics, transactional=_transactional(recovery), shared=shared), rights),
        *_handed_over(recovery, manifest),
        *_unattributed(recovery, whose, Occasion.RESTORE),
        *(_hanging(recovery, facts.values(), Occasion.RESTORE) if saves else ()),
        *judge.loses_unread(recovery.application_id, recovery.config.dialect),
        *_strangers(recovery, rights, Occasion.RESTORE, refused=True),
    )
    if manifest is None:
        return lacking
    return (
        *lacking,
        *_of_made(recovery, manifest, made, rights, [one for name, one in facts.items() if name not in cut], replacing=replacing),
        *_written_again(recovery, manifest, images, described),
    )


def _of_made(
    recovery: RecoveryContext,
    manifest: Manifest,
    made: Mapping[str, TopicImage],
    rights: Rights,
    existing: Iterable[TopicFacts] = (),
    *,
    replacing: bool = False,
) -> tuple[PreflightFinding, ...]:
    brokers = recovery.cluster.facts()
    facts = facts_of(recovery, brokers, [judge.to_be_made(name, image, brokers) for name, image in made.items()])
    return judge.before_restore(facts, manifest, made, existing, _application_facts(recovery, rights), replacing=replacing)


def before_failover(recovery: RecoveryContext, manifest: Manifest | None) -> tuple[PreflightFinding, ...]:
    """Findings that block or weaken a move of the application to the site that ``recovery`` is at, with the state of ``manifest``; without one, only those that
    depend on no savepoint.
    """
    if manifest is None:
        return before_restore(recovery, None)
    wanted, lowered = fewer_replicas(
        manifest, factor=recovery.config.restore.replication_factor, brokers=len(recovery.cluster.broker_ids())
    )
    images = _images(recovery, wanted)
    rights = recovery.cluster.rights(images, recovery.application_id)
    described = _described(recovery, dict.fromkeys(images, TopicRole.INPUT), rights)
    inputs = {name: found.partitions for name, found in described.items() if images[name].role is TopicRole.INPUT}
    ends = recovery.cluster.high_watermarks([TopicPartition(name, number) for name, count in inputs.items() for number in range(count)])
    return (
        *before_restore(recovery, wanted, replacing=True),
        *(warning("replication", one.text, more_brokers_there(in_sync=one.in_sync)) for one in lowered),
        *inputs_there(recovery.connection.tools, images, described, [name for name in images if not _readable(rights.topics[name])], ends),
        *space_of_brokers(recovery, images, described),
    )


def _unmatched(recovery: RecoveryContext, declared: Declared) -> tuple[PreflightFinding, ...]:
    if not judge.unmatched(declared, ()):
        return ()
    try:
        # What it reads without being named anywhere is archived by a pattern too.
        committed = {tp.topic for tp in recovery.groups.committed_partitions(recovery.application_id)}
    except Refused:
        return ()
    return judge.unmatched(declared, committed)


def topics_as_they_are(recovery: RecoveryContext) -> tuple[tuple[TopicFacts, ...], tuple[str, ...]]:
    """The application's topics that exist, with the settings in force and their sizes; and the names of those that may not be described."""
    whose = attributions(recovery)
    roles = _configured(recovery) | _visible(recovery, whose)
    rights = recovery.cluster.rights(roles, recovery.application_id)
    found = topic_facts(recovery, roles, _described(recovery, roles, rights), whose, sizes=True)
    return tuple(found.values()), tuple(name for name in sorted(roles) if not _readable(rights.topics[name]))


def _pause(recovery: RecoveryContext) -> PauseFacts:
    return PauseFacts(application_id=recovery.application_id, no_pause_because=recovery.config.no_pause_because)


def _spark(recovery: RecoveryContext) -> tuple[PreflightFinding, ...]:
    """Findings that would keep jobs from being submitted, made while the application still runs."""
    try:
        master, defaults = recovery.spark_master(), spark_defaults()
        kubernetes_settings(master, defaults)
        rpc_settings(master, defaults, allow_insecure=recovery.config.spark.allow_insecure_rpc)
    except NotFound:
        # Without the connection nothing is known of the cluster; who submits a job names it.
        return ()
    except ConfigInvalid as error:
        return (refused("spark", error),)
    return ()


def _handed_over(recovery: RecoveryContext, manifest: Manifest | None) -> tuple[PreflightFinding, ...]:
    source = recovery.application_id if manifest is None else manifest.application_id
    last = recovery.ownership.last()
    found: tuple[PreflightFinding, ...] = ()
    if last is not None:
        against = contradictions(
            last, recovery.counterpart(last), application_id=recovery.application_id, is_clone=recovery.config.clone is not None
        )
        facts = WriterFacts(last=last, application_id=recovery.application_id, source=source, against=against)
        found = as_findings(WRITER.ask(Occasion.RESTORE, facts))
    if not blocking(found):
        try:
            refuse_stop(recovery.application)
        except Refused as error:
            return (*found, refused("outputs-transferred", error))
    return found


def _hanging(recovery: RecoveryContext, topics: Iterable[TopicFacts], asked: Occasion) -> tuple[PreflightFinding, ...]:
    """Found before the application is held: a savepoint waits until nothing on the topics that it writes is undecided. Logs that cannot be asked now have no
    finding: the step that has to read them says why.
    """
    written = [topic for topic in topics if topic.role.internal or topic.name in recovery.config.topics.outputs]
    partitions = [TopicPartition(topic.name, number) for topic in written for number in range(topic.partitions)]
    try:
        stable, ends = recovery.cluster.last_stable_offsets(partitions), recovery.cluster.high_watermarks(partitions)
        opened = recovery.transactions.seen([tp for tp in partitions if stable[tp] < ends[tp]])
    except RecoveryError:
        return ()
    hanging = tuple(hangs for one in opened if (hangs := one.proven) is not None)
    facts = HangingFacts(tools=recovery.connection.tools, hanging=hanging, waits_for=frozenset(topic.name for topic in written))
    return as_findings(HANGING.ask(asked, facts))


def _guarantee(recovery: RecoveryContext, topics: Iterable[TopicFacts], mode: QuiesceMode | None) -> tuple[PreflightFinding, ...]:
    """A finding for an application that is configured to work exactly once while its changelogs show that it does not: it would be held for too short a
    time.
    """
    how, policy = mode or recovery.config.quiesce_mode, recovery.config.backup.consistency
    if not _transactional(recovery) or how is QuiesceMode.STOP or not not_gone(recovery):
        return ()
    changelogs = [TopicPartition(one.name, number) for one in topics if one.role is TopicRole.CHANGELOG for number in range(one.partitions)]
    try:
        with impatient_logs(recovery.application_id, recovery.connection, recovery.cluster, recovery.clock, recovery.loads) as logs:
            found = logs.not_transactional(changelogs, recovery.cluster.high_watermarks(changelogs))
    except RecoveryError:
        return ()
    return judge.not_exactly_once(found, refused=policy.require == "exact" and policy.fallback == "none")


def _written_again(
    recovery: RecoveryContext, manifest: Manifest, images: Mapping[str, TopicImage], described: Mapping[str, TopicDescription]
) -> tuple[PreflightFinding, ...]:
    outputs = {
        name: image
        for name, image in images.items()
        if image.role is TopicRole.OUTPUT and name in described and described[name].topic_id == image.topic_id
    }
    partitions = [TopicPartition(name, number) for name in outputs for number in range(described[name].partitions)]
    return judge.written_again(outputs_behind(manifest, outputs, recovery.cluster.high_watermarks(partitions)))


def _images(recovery: RecoveryContext, manifest: Manifest) -> dict[str, TopicImage]:
    names = recovery.config.restore.topic_map
    return {target_name(topic, manifest, recovery.application_id, names, recovery.config.dialect): topic for topic in manifest.topics}


def _is_made(image: TopicImage, found: TopicDescription | None, allowed: Answer) -> bool:
    """True when the restore will create this topic. What may not be looked at is taken to be there: that asks for the least rights."""
    if image.role.internal:
        return True
    if found is None:
        return _readable(allowed) and (image.archived or image.role is TopicRole.OUTPUT)
    return image.role is TopicRole.INPUT and image.archived and found.topic_id != image.topic_id


def required_for_backup(recovery: RecoveryContext, mode: QuiesceMode | None) -> tuple[str, ...]:
    """The warnings before a savepoint. Raises ``Refused`` naming everything that blocks it at once."""
    held = () if mode is None else ("--mode", mode.value)
    look_again = command("preflight", recovery.config.name, "--for", "backup", *held)
    found = (*of_store(recovery), *_once_settled(partial(before_backup, recovery, mode), partial(settled_roll, recovery)))
    return required(found, f"a savepoint of {recovery.application_id}", look_again=(look_again,))


def _ahead(recovery: RecoveryContext) -> tuple[PreflightFinding, ...]:
    ids = recovery.savepoints.ahead()
    keys = (key for one in ids[-3:] for key in (recovery.savepoints.key(one), recovery.layout.published(one)))
    facts = FutureRecords(name=recovery.config.name, ids=tuple(ids), keys=tuple(keys))
    return as_findings(AHEAD.ask(Occasion.SAVEPOINT, facts))


def required_for_restore(
    recovery: RecoveryContext, manifest: Manifest, safeguards: Safeguards, *, cut: Collection[str] = ()
) -> tuple[str, ...]:
    """The warnings before a restore in place of ``manifest``. Raises ``Refused`` naming everything that blocks it at once. Inputs that are
    ``cut`` are made again.
    """
    saving = safeguards.safety is SafetyPolicy.REQUIRED
    look = partial(before_restore, recovery, manifest, replacing=safeguards.replace, saving=saving, cut=cut)
    found = (*of_store(recovery, saves=saving), *_once_settled(look, partial(settled_roll, recovery)))
    return required(found, f"a restore of {recovery.application_id}", look_again=_look_again(recovery, manifest) if blocking(found) else ())


def _once_settled(look: Callable[[], tuple[PreflightFinding, ...]], settle: Callable[[], object]) -> tuple[PreflightFinding, ...]:
    """The findings, once members that have died cannot be taken for strangers any more: a run that is refused for them would be right a moment later."""
    found = look()
    # A savepoint of a running application only warns of them, and must not wait for sessions to end.
    if not any(one.kind == STRANGERS for one in blocking(found)):
        return found
    settle()
    return look()


def _look_again(recovery: RecoveryContext, manifest: Manifest) -> tuple[str, ...]:
    """The command that looks around before this restore. It knows the application's own savepoints only."""
    if manifest.savepoint_id not in recovery.savepoints.ids():
        return ()
    return (command("preflight", recovery.config.name, "--for", "restore", "--savepoint", manifest.savepoint_id),)


def required_for_rebuild(recovery: RecoveryContext, safeguards: Safeguards, archive: Manifest | None) -> tuple[str, ...]:
    """The warnings before a rebuild from the input. ``archive`` has the topics that are made from a savepoint where they are gone. Raises as
    ``required_for_restore``.
    """
    saving = safeguards.safety is SafetyPolicy.REQUIRED
    look = partial(before_restore, recovery, None, saving=saving)
    found = (*of_store(recovery, saves=saving), *_once_settled(look, partial(settled_roll, recovery)))
    if archive is not None:
        found = tuple(dict.fromkeys((*found, *before_restore(recovery, archive, replacing=safeguards.replace, saving=saving))))
    return required(found, f"a rebuild of {recovery.application_id}")


def required_for_topics(
    recovery: RecoveryContext, manifest: Manifest, made: Mapping[str, TopicImage], *, in_place: bool, wipes: bool
) -> tuple[str, ...]:
    """The warnings before single topics are brought back, by the names that they get. Raises as ``required_for_restore``. Copies have nothing to do with the
    application's group.
    """
    rights = recovery.cluster.rights(made, recovery.application_id)
    topics = [TopicInUse(name=name, role=image.role, archived=False, compacted=False, made=True) for name, image in sorted(made.items())]
    needs = restore_needs(recovery.application_id, topics, transactional=False, shared=_shared(recovery, attributions(recovery)))
    found = (
        *of_store(recovery, saves=False),
        *(recovery.application.preflight(stops=False, wipes=True) if wipes else ()),
        *_spark(recovery),
        *missing([need for need in needs if in_place or need.kind is not ResourceKind.GROUP], rights),
        *_of_made(recovery, manifest, made, rights),
    )
    about = [finding for finding in found if in_place or finding.kind != "group-trap"]
    return required(about, f"a restore of single topics of {recovery.application_id}")


def _probe(recovery: RecoveryContext) -> str:
    """A topic that may not be seen is absent from every list, so some questions are asked about one that does not exist."""
    return f"{recovery.application_id}-preflight-changelog"


def _known(recovery: RecoveryContext, whose: Mapping[str, Attribution]) -> dict[str, TopicRole]:
    """The topics that are configured or visible. Where state is to be saved and no changelog is among them, the probe stands for it."""
    found = _configured(recovery) | _visible(recovery, whose)
    seen = TopicRole.CHANGELOG in found.values() or recovery.config.backup.profile is not Profile.FULL
    return found if seen else {**found, _probe(recovery): TopicRole.CHANGELOG}


def _perhaps_hidden(recovery: RecoveryContext) -> frozenset[str]:
    """Inputs by pattern that members of the application read and no list has. One that may not be seen is in none, and would be no input without a word."""
    if not recovery.config.topics.input_patterns:
        return frozenset()
    read = recovery.groups.read_by(recovery.application_id) or frozenset()
    return frozenset(name for name in read.difference(recovery.cluster.topic_names()) if recovery.config.topics.reads(name))


def _configured(recovery: RecoveryContext) -> dict[str, TopicRole]:
    """Topics that the configuration names, the changelogs of its stores among them."""
    return {**dict.fromkeys(recovery.config.changelogs.values(), TopicRole.CHANGELOG), **recovery.topics.declared}


def _visible(recovery: RecoveryContext, whose: Mapping[str, Attribution]) -> dict[str, TopicRole]:
    """Internal topics that the connection's user may see, the application's own and unattributed ones."""
    roles = ((name, recovery.config.internal_role(name)) for name, found in whose.items() if found.claim is None)
    return {name: role for name, role in roles if role is not None}


def _unattributed(recovery: RecoveryContext, whose: Mapping[str, Attribution], asked: Occasion) -> tuple[PreflightFinding, ...]:
    topics = tuple(name for name, one in whose.items() if one.evidence is None and one.claim is None)
    facts = AttributionGaps(name=recovery.config.name, application_id=recovery.application_id, topics=topics)
    return as_findings(UNATTRIBUTED.ask(asked, facts))


def _described(recovery: RecoveryContext, roles: Mapping[str, TopicRole], rights: Rights) -> dict[str, TopicDescription]:
    """The topics that exist and whose settings may be read."""
    return recovery.cluster.describe_topics([name for name in roles if _readable(rights.topics[name])])


def _readable(answer: Answer) -> bool:
    return answer is None or {DESCRIBE, DESCRIBE_CONFIGS} <= answer


def _in_use(recovery: RecoveryContext, name: str, role: TopicRole, facts: TopicFacts | None) -> TopicInUse:
    compacted = role is TopicRole.CHANGELOG if facts is None else facts.compacted
    archived = recovery.config.declared(recovery.config.backup.profile).archives(name, role)
    return TopicInUse(name=name, role=role, archived=archived, compacted=compacted)


def _shared(recovery: RecoveryContext, whose: Mapping[str, Attribution]) -> bool:
    """True where another application's id begins like this one's, as far as this user sees groups: its topics begin so too."""
    begun = f"{recovery.application_id}-"
    return any(group.startswith(begun) for group in other_groups(recovery)) or any(one.claim is not None for one in whose.values())


def _transactional(recovery: RecoveryContext) -> bool:
    return recovery.config.application.guarantee is Guarantee.EXACTLY_ONCE_V2


def _application_facts(recovery: RecoveryContext, rights: Rights) -> ApplicationFacts:
    me = recovery.application_id
    kind = recovery.groups.describe(me).kind if _group_is_seen(rights) else "unknown"
    return ApplicationFacts(application_id=me, group_kind=kind)


def _group_is_seen(rights: Rights) -> bool:
    return rights.group is None or DESCRIBE in rights.group


def _strangers(recovery: RecoveryContext, rights: Rights, asked: Occasion, *, refused: bool) -> tuple[PreflightFinding, ...]:
    """The question that every stop asks first, with the same function."""
    if not _group_is_seen(rights):
        return ()
    facts = MemberFacts(name=recovery.config.name, group_id=recovery.application_id, roll=roll_of(recovery), refused=refused)
    return as_findings(MEMBERS.ask(asked, facts))


def _held(recovery: RecoveryContext, mode: QuiesceMode | None) -> bool:
    """True if a savepoint that holds the application this way cannot be exact while other members work."""
    how = mode or recovery.config.quiesce_mode
    return how is QuiesceMode.STOP or (how is QuiesceMode.PAUSE and not _transactional(recovery)) or not not_gone(recovery)
