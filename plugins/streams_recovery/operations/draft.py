"""Looking at a cluster for the draft of a configuration. Changes nothing; what the connection's user may not see is left out, and named."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from streams_recovery.application.found_process import command_line, connected_to, directory_of
from streams_recovery.application.http_control import exchange
from streams_recovery.application.kubernetes.finding import find, reachable
from streams_recovery.application.local_state import open_files, task_directory_of
from streams_recovery.config.contradictions import contradictions
from streams_recovery.config.loader import load, load_all
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.codec import Unusable, parsed
from streams_recovery.core.draft.configuration import lacking
from streams_recovery.core.draft.questions import NONE, RUNNING, WORKING
from streams_recovery.core.draft.secret_words import masked_words
from streams_recovery.core.draft.seen import ApplicationSeen, Candidate, ClusterSeen, candidates, guarantee_of, undecided
from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.preflight.permissions import DESCRIBE, DESCRIBE_CONFIGS, RequiredAcl, ResourceKind, missing
from streams_recovery.core.rollout.described import MOST_BYTES, DescribedTopology, described
from streams_recovery.core.savepoint.topology import Attribution, AttributionFacts, attributed
from streams_recovery.core.words import first_names
from streams_recovery.kafka.connection import Connecting, KafkaConnection
from streams_recovery.kafka.known_topology import KnownTopology
from streams_recovery.kafka.opened import opened
from streams_recovery.operations.compatibility import described_by, described_in_file
from streams_recovery.operations.discovery import shows_streams

if TYPE_CHECKING:
    from streams_recovery.kafka.cluster import KafkaCluster
    from streams_recovery.kafka.groups import ConsumerGroups
    from streams_recovery.kafka.transactions import Transactions

_SECONDS: Final = 3.0
_MOST_ANSWER: Final = 1 << 16
# The end of a command line has the program behind a long class path.
_SHOWN_OF_ARGV: Final = 60
_ANY_ID: Final = re.compile(r"(?s).*")
# Each is asked by itself. Whoever has more names the id.
MOST_ASKED: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Looker:
    """The clients of one cluster, and what it shows."""

    cluster: KafkaCluster
    groups: ConsumerGroups
    transactions: Transactions
    seen: ClusterSeen
    # Ids of applications that are configured for this cluster: one of them may be down, without a group.
    configured: frozenset[str] = frozenset()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """What looks like an application, with groups of which names say nothing: those are looked at one by one."""
        streams = {name for name in undecided(self.seen)[:MOST_ASKED] if self._shows_streams(name)}
        return candidates(replace(self.seen, streams=frozenset(streams)))

    def _shows_streams(self, group: str) -> bool:
        try:
            return shows_streams(self.groups, group)
        except Refused:
            return False

    def candidate(self, application_id: str) -> Candidate:
        """The application of this id. Raises ``NotFound`` where the cluster shows nothing of it: no group, no topic, no transactional id."""
        looked_at = application_id in undecided(self.seen) and self._shows_streams(application_id)
        found = candidates(replace(self.seen, streams=frozenset({application_id} if looked_at else ())))
        chosen = next((one for one in found if one.application_id == application_id), None)
        if chosen is not None:
            return chosen
        there = first_names([one.application_id for one in found], most=20) or "none was seen"
        raise NotFound(
            f"nothing on this cluster that this user may see looks like an application {application_id[:100]}",
            next_step=f"name one that is there: {there}; or start it first",
            application_id=application_id[:100],
        )

    def application(self, found: Candidate) -> tuple[ApplicationSeen, tuple[PreflightFinding, ...]]:
        """What is known of an application, and the rights without which more is not."""
        me, kind = found.application_id, found.kind
        committed, readable = self._committed(me)
        internal = self._internal(found, committed)
        changelogs = [name for name, one in internal.items() if one.role is TopicRole.CHANGELOG and one.claim is None]
        settings, may_look = self._settings(changelogs)
        rights = self.cluster.rights(changelogs, me)
        topology = self._known(me)
        seen = ApplicationSeen(
            application_id=me,
            kind=kind,
            existing=self.seen.topics,
            committed=committed,
            internal=internal,
            settings=settings,
            guarantee=guarantee_of(kind, me, self.seen.transactional_ids, visible=rights.transactional_ids),
            topology=topology.described,
            described_by="the broker, which has it from the application",
            stated=topology.changelogs,
        )
        needs = [
            _need(ResourceKind.CLUSTER, "", DESCRIBE, "to see the groups of other applications"),
            _need(ResourceKind.TRANSACTIONAL_ID, f"{me}-", DESCRIBE, "to tell its guarantee"),
        ]
        needs += [] if readable else [_need(ResourceKind.GROUP, me, DESCRIBE, "to see its inputs")]
        needs += (
            [] if may_look else [_need(ResourceKind.TOPIC, name, DESCRIBE_CONFIGS, "to tell the kinds of stores") for name in changelogs]
        )
        return seen, missing(needs, rights)

    def _committed(self, group: str) -> tuple[frozenset[str], bool]:
        try:
            return frozenset(tp.topic for tp in self.groups.committed_partitions(group)), True
        except Refused:
            return frozenset(), False

    def _known(self, group: str) -> KnownTopology:
        # Brokers from before the streams protocol know no such question.
        listed = self.seen.groups.get(group)
        if listed is None or listed.kind != "streams":
            return KnownTopology(frozenset(), None)
        try:
            return self.groups.known_topology(group)
        except Refused:
            return KnownTopology(frozenset(), None)

    def _settings(self, changelogs: list[str]) -> tuple[dict[str, dict[str, str]], bool]:
        try:
            return {name: dict(one.config) for name, one in self.cluster.describe_topics(changelogs).items()}, True
        except Refused:
            return {}, False

    def _internal(self, found: Candidate, committed: frozenset[str]) -> dict[str, Attribution]:
        """Topics that are called like internal ones of it, with their owners: those of an application with a longer id are not its own. A plain consumer group
        is no application, whatever it is called.
        """
        me = found.application_id
        longer = (one for one in candidates(self.seen) if one.application_id.startswith(f"{me}-"))
        others = {one.application_id for one in longer if not one.by_name or self._shows_streams(one.application_id)}
        known = AttributionFacts(application_id=me, kind=found.kind, committed=committed, groups={*others, *self.configured} - {me})
        return {name: one for name in sorted(self.seen.topics) if (one := attributed(name, known)) is not None}


def _need(kind: ResourceKind, name: str, operation: str, why: str) -> RequiredAcl:
    return RequiredAcl(
        kind=kind,
        name=name,
        operations=frozenset({operation}),
        why=why,
        advised=name,
        prefixed=kind is ResourceKind.TRANSACTIONAL_ID,
        blocking=False,
    )


@contextmanager
def looking_around(connection: Connecting, configs: Path, *, timeout: float = 30.0) -> Iterator[Looker]:
    """A look at a cluster, which may have the applications of ``configs``. Raises ``BrokerUnavailable``."""
    configured = load_all(configs, os.environ).applications.values() if configs.is_dir() else ()
    with opened(connection, timeout=timeout) as (cluster, groups, transactions):
        seen = ClusterSeen(
            topics=frozenset(cluster.topic_names()), groups=groups.listed(), transactional_ids=transactions.registered(_ANY_ID)
        )
        ids = frozenset(one.application.id for one in configured)
        yield Looker(cluster=cluster, groups=groups, transactions=transactions, seen=seen, configured=ids)


def with_topology(seen: ApplicationSeen, where: str) -> ApplicationSeen:
    """With the description at the address of an instance, or in a file. Raises ``ConfigInvalid``."""
    if "://" not in where:
        return replace(seen, topology=described_in_file(Path(where)), described_by=Path(where).name)
    return replace(seen, topology=_of_instance(where), described_by=f"{where}/topology")


def with_program(seen: ApplicationSeen, command: list[str]) -> ApplicationSeen:
    """With the description that ``application.topology_command`` prints. Raises ``ConfigInvalid``."""
    return replace(seen, topology=described_by(command, seen.application_id), described_by="application.topology_command")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProcess:
    """A process that is known to be the application's: its state is open in it, in ``state`` if that is one directory, or its command line has the id."""

    pid: int
    shown: str
    state: str | None


def running_process(connection: KafkaConnection, application_id: str) -> RunningProcess | None:
    """The only one of this user that is connected to a port of the cluster's bootstrap servers. A port may be another cluster's, so that alone is no proof."""
    ends = (server.rpartition(":")[2].strip() for server in connection.bootstrap_servers.split(","))
    found = []
    for pid in connected_to({int(end) for end in ends if end.isdigit()}):
        argv = command_line(pid) or []
        states = {one.parent for path in open_files(pid) if (one := task_directory_of(path, application_id)) is not None}
        if states or any(application_id in word for word in argv):
            shown = " ".join(masked_words(argv))[-_SHOWN_OF_ARGV:]
            found.append(RunningProcess(pid=pid, shown=shown, state=str(states.pop()) if len(states) == 1 else None))
    return found[0] if len(found) == 1 else None


def of_process(answer: object) -> dict[str, Any]:
    """Answers by their keys: the command line and the directory of the process whose pid was answered, or the answer as it is. Raises ``ConfigInvalid`` where
    there is no such process.
    """
    words = answer if isinstance(answer, list) else [answer]
    if len(words) != 1 or not str(words[0]).isdigit():
        return {RUNNING: answer}
    number = int(str(words[0]))
    argv, directory = command_line(number), directory_of(number)
    if argv is None:
        raise ConfigInvalid(f"this user sees no process {number}", next_step=f"name the pid of one that runs, or {NONE}")
    return {RUNNING: argv} | ({} if directory is None else {WORKING: directory})


def with_instance(seen: ApplicationSeen, url: str) -> ApplicationSeen:
    """With what an instance says of itself, as far as one answers."""
    try:
        health = parsed(exchange("GET", url, "/health", seconds=_SECONDS, limit=_MOST_ANSWER).body, most_bytes=_MOST_ANSWER)
    except (OSError, HTTPException, Unusable):
        return seen
    seen = replace(seen, pauses=isinstance(health, dict) and isinstance(health.get("paused"), bool))
    if seen.topology is not None:
        return seen
    try:
        return with_topology(seen, url)
    except ConfigInvalid:
        return seen


def _of_instance(url: str) -> DescribedTopology:
    try:
        return described(exchange("GET", url.rstrip("/"), "/topology", seconds=_SECONDS, limit=MOST_BYTES).body)
    except (OSError, HTTPException) as error:
        raise ConfigInvalid(
            f"{url}/topology did not answer: {error}", next_step="name the address of an instance that runs, or a file"
        ) from None


def kubernetes_access(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The file by which Kubernetes is reached from here, and the context in it, if there are such."""
    reached = reachable(environment)
    return (None, None) if reached is None else (reached.kubeconfig, reached.context)


def with_workloads(seen: ApplicationSeen, environment: Mapping[str, str], namespace: str | None) -> tuple[ApplicationSeen, str]:
    """With workloads of the Kubernetes cluster that can be reached from here, and why there are none; empty where there is no such cluster."""
    reached = reachable(environment)
    if reached is None:
        return seen, ""
    try:
        found = find(reached, seen.application_id, namespace)
    except RecoveryError as error:
        return seen, f"Kubernetes was not asked: {error.reason}"
    return replace(seen, workloads=found), ""


def checked(text: str, name: str, configs: Path, variables: Mapping[str, str] = MappingProxyType({})) -> ApplicationConfig:
    """The configuration that a file of this text and name would be, beside those that are there, with ``variables`` of the environment that are not set yet.
    Raises ``ConfigInvalid``, also where it contradicts one.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{name}.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            found = load(file, {**os.environ, **variables})
        except ConfigInvalid as error:
            # The file is nowhere yet: its lines are those that were shown.
            raise ConfigInvalid(error.reason.replace(f"{scratch}/", ""), next_step="correct the answer that this line is of") from None
    if configs.is_dir():
        others = load_all(configs, os.environ)
        wrong = contradictions({**others.applications, name: found}, configured={*others.applications, *others.broken, name})
        if name in wrong:
            raise wrong[name]
    return found


def missing_in(config: ApplicationConfig, looker: Looker, topology: str | None = None) -> tuple[str, ...]:
    """What the cluster has that a configuration lacks. Raises ``NotFound`` where the cluster shows nothing of its application."""
    seen, _ = looker.application(looker.candidate(config.application.id))
    if topology is not None:
        seen = with_topology(seen, topology)
    elif seen.topology is None and config.application.topology_command is not None:
        seen = with_program(seen, list(config.application.topology_command))
    topics = config.topics.on(seen.existing)
    declared = {"inputs": topics.inputs, "outputs": topics.outputs, "globals": topics.globals, "stores": tuple(config.stores)}
    seen = replace(seen, internal={name: one for name, one in seen.internal.items() if name not in {*topics.owned, *topics.foreign}})
    return tuple(lacking(seen, declared, config.application.guarantee))
