"""Everything a step works with, opened together: configuration, cluster, group, repository, lock, application, clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from streams_recovery.application.port import InstanceState, InstanceStatus, StreamsApplication
from streams_recovery.config.backup import EncryptionKey
from streams_recovery.config.contradictions import neighbours
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound
from streams_recovery.core.repository.encryption import KeyAccess, KeyPlace, Provider
from streams_recovery.core.repository.layout import Backend, Layout
from streams_recovery.core.repository.lease import HolderProcess
from streams_recovery.core.repository.ownership import Counterpart, OwnershipEntry
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.savepoint.topology import Topics
from streams_recovery.core.savepoint.writers import LoadedEntry
from streams_recovery.core.topic_holds.log import HoldEntry
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.opened import opened
from streams_recovery.operations.lock_holder import is_dead
from streams_recovery.operations.ownership import Applications, StartedByRole, current_owner, ownership_log
from streams_recovery.operations.sites import LOOK_SECONDS, Sites, sites_of
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.loaded_log import newest_loads
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.open_store import key_in_file
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore

if TYPE_CHECKING:
    from streams_recovery.kafka.cluster import KafkaCluster
    from streams_recovery.kafka.groups import ConsumerGroups
    from streams_recovery.kafka.transactions import Transactions

    Tools = tuple[KafkaCluster, ConsumerGroups, Transactions]


class ConnectionSource(Protocol):
    """The source of secrets: Airflow's connections, or the environment when Airflow is lost."""

    def kafka(self, connection_id: str) -> KafkaConnection:
        """The Kafka connection of this id. Raises ``NotFound``."""

    def storage(self, connection_id: str | None, backend: Backend) -> StorageCredentials | None:
        """Credentials for the repository, None when the place needs none. Raises ``NotFound``."""

    def secret(self, connection_id: str) -> str | None:
        """The password of a connection, None when it has none. Raises ``NotFound``."""

    def spark_master(self, connection_id: str) -> str:
        """The master that the Spark connection of this id names. Raises ``NotFound``, and ``ConfigInvalid`` when it names none."""


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationAtSite:
    """An application at one site, and its repository."""

    # As it is at the site.
    config: ApplicationConfig
    connections: ConnectionSource
    credentials: StorageCredentials | None
    repository: Repository
    site: str
    sites: Sites
    # Opens the context of another site.
    at: Callable[[str], AbstractContextManager[RecoveryContext]]
    clock: Callable[[], int]
    # Reads all configurations.
    applications: Applications = dict


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryContext(ApplicationAtSite):
    """The open tools of one application at a site. Not shared between threads."""

    connect: Callable[[], KafkaConnection]
    cluster: KafkaCluster
    groups: ConsumerGroups
    transactions: Transactions
    layout: Layout
    savepoints: SavepointStore
    safety: SavepointStore
    artifacts: RunArtifacts
    hold_log: AppendLog[HoldEntry]
    ownership: AppendLog[OwnershipEntry]
    lock: ApplicationLock
    application: StreamsApplication
    # Looks at the other application of a pair, so that an entry about who writes the outputs is not simply believed.
    counterpart: Callable[[OwnershipEntry | None], Counterpart]
    # Looks for the other applications that are configured on its cluster: the changelogs of their stores by application id.
    configured: Callable[[], Mapping[str, Collection[str]]] = dict

    @property
    def connection(self) -> KafkaConnection:
        """The connection to the cluster. Raises ``NotFound`` when the connection is not defined: those who only read the repository never ask for it."""
        return self.connect()

    @property
    def application_id(self) -> str:
        """``application.id``, which is also the consumer group."""
        return self.config.application.id

    @property
    def topics(self) -> Topics:
        """The configured topics; where inputs are configured by pattern, with those that the patterns mean on the cluster at this moment."""
        topics = self.config.topics
        return topics.on(self.cluster.topic_names()) if topics.input_patterns else topics

    def loads(self) -> tuple[LoadedEntry, ...]:
        """What the newest restores have recorded of the logs that they loaded, newest first."""
        return newest_loads(self.repository, self.layout)

    def spark_master(self) -> str:
        """The master of Spark jobs. Asked for only when there is one to submit: many commands need no Spark. Raises what ``ConnectionSource`` does."""
        return self.connections.spark_master(self.config.spark.connection)

    def savepoints_of(self, application_id: str) -> SavepointStore:
        """The savepoints of an application in the same repository: this one's own, or another one's to begin from."""
        return (
            self.savepoints
            if application_id == self.application_id
            else SavepointStore(self.repository, Layout(application_id), self.clock)
        )


def not_gone(recovery: RecoveryContext) -> tuple[InstanceStatus, ...]:
    """Instances of the application that run or may run: only ``GONE`` is proof that one cannot write any more."""
    return tuple(one for one in recovery.application.status() if one.state is not InstanceState.GONE)


def storage_credentials(config: ApplicationConfig, connections: ConnectionSource) -> StorageCredentials | None:
    """The credentials for the repository of an application, None when it needs none. Raises ``NotFound``."""
    backend = config.storage.backend
    return connections.storage(config.storage.connection, backend) if backend != "filesystem" else None


def seal_keys(config: ApplicationConfig, connections: ConnectionSource, *, writes: bool = True) -> SealKeys | None:
    """The keys of a sealed repository, None for one without seals. Without a private key it can be read: the first write says what is missing. A process that
    never ``writes`` does not ask for the private key.
    """
    section = config.storage.seal
    if section is None or not section.enabled:
        return None
    if not writes:
        return SealKeys(public=section.public_keys, withdrawn=section.withdrawn_keys, missing="this process only reads")
    private, missing = None, "neither storage.seal.connection nor storage.seal.key_file is set"
    if section.connection is not None:
        try:
            private = connections.secret(section.connection)
            missing = f"connection {section.connection} has no password"
        except NotFound as error:
            missing = error.reason
    elif section.key_file is not None:
        private, missing = key_in_file(Path(section.key_file))
    return SealKeys(public=section.public_keys, withdrawn=section.withdrawn_keys, private=private, missing=missing)


def key_access(config: ApplicationConfig, connections: ConnectionSource) -> KeyAccess | None:
    """The key-encryption keys of a repository, None for one in clear. Those of the place that is the repository come first. A missing key is told by the
    first who needs it.
    """
    section = config.storage.encryption
    if section is None or not section.enabled:
        return None
    keys = sorted(section.keys, key=lambda one: one.mirror != config.storage.is_turned_round)
    return KeyAccess(places=tuple(_key_place(one, connections) for one in keys))


def _key_place(one: EncryptionKey, connections: ConnectionSource) -> KeyPlace:
    options, missing = dict[str, str](), ""
    if one.key_file is not None:
        secret, missing = key_in_file(Path(one.key_file))
        options = {} if secret is None else {"secret": secret}
    elif one.connection is not None:
        try:
            if one.provider in ("local", "vault"):
                found = connections.secret(one.connection)
                options, missing = ({}, f"connection {one.connection} has no password") if found is None else ({"secret": found}, "")
            else:
                given = connections.storage(one.connection, _BACKENDS[one.provider])
                options = {} if given is None else dict(given.options)
        except NotFound as error:
            missing = error.reason
    return KeyPlace(provider=one.provider, address=one.address, options=options, missing=missing, mirror=one.mirror)


# The credentials of a cloud open its stores and its keys.
_BACKENDS: Final[Mapping[Provider, Backend]] = {"aws": "s3", "google": "gcs", "azure": "azure"}


def open_repository(
    config: ApplicationConfig, connections: ConnectionSource, credentials: StorageCredentials | None, *, writes: bool = True
) -> Repository:
    """The repository of an application, with its seals and its keys. A process that never ``writes`` is the page, which reads no records either."""
    return Repository(
        config.storage.location,
        credentials,
        seal=seal_keys(config, connections, writes=writes),
        encryption=key_access(config, connections) if writes else None,
    )


def _elsewhere(
    written: ApplicationConfig,
    connections: ConnectionSource,
    clock: Callable[[], int],
    process: HolderProcess | None,
    applications: Applications,
    patience: float,
) -> Callable[[str], AbstractContextManager[RecoveryContext]]:
    """Opens the context of the same application at another site."""

    def at(other: str) -> AbstractContextManager[RecoveryContext]:
        return open_context(written, connections, clock=clock, process=process, applications=applications, site=other, patience=patience)

    return at


def _tools(
    place: ApplicationAtSite, process: HolderProcess | None, connect: Callable[[], KafkaConnection], of_cluster: Tools
) -> RecoveryContext:
    """The context at a place, with the tools of its cluster."""
    config, repository, clock, layout = place.config, place.repository, place.clock, Layout(place.config.application.id)
    cluster, groups, transactions = of_cluster
    started = StartedByRole(config, repository, groups, place.applications, partial(place.sites.require_start, place.site))
    return RecoveryContext(
        **codec.fields_of(ApplicationAtSite, replace(place, config=current_owner(config, repository, place.applications))),
        connect=connect,
        cluster=cluster,
        groups=groups,
        transactions=transactions,
        layout=layout,
        savepoints=SavepointStore(repository, layout, clock),
        safety=SavepointStore(repository, layout.safety, clock),
        artifacts=RunArtifacts(repository, layout),
        hold_log=AppendLog(repository, layout.holds, HoldEntry, restricts=lambda entry: entry.kind == "applied" and not entry.clear),
        ownership=ownership_log(repository, layout),
        lock=ApplicationLock(
            repository, layout, clock, name=config.name, options=config.storage.place_option, process=process, is_dead=is_dead
        ),
        application=started,
        counterpart=started.counterpart,
        configured=cache(lambda: neighbours(config, place.applications())),
    )


@contextmanager
def open_context(
    config: ApplicationConfig,
    connections: ConnectionSource,
    *,
    clock: Callable[[], int] = wall_clock,
    process: HolderProcess | None = None,
    applications: Callable[[], Mapping[str, ApplicationConfig]] = dict,
    site: str | None = None,
    anew: bool = False,
    patience: float | None = None,
) -> Iterator[RecoveryContext]:
    """The context of one application at ``site``, by default the site that it belongs to. A sandbox that begins ``anew`` is opened at the site that is chosen
    for it now, any other sandbox at the site where it began. Closed at the end. Opening proves nothing: the first call to each tool does, and looks the
    connection to the cluster up. The repository is asked only for the present site of an application with several sites, and for the present role of a clone,
    because its outputs have other names once it is live. ``process`` is the present process if it is a whole run, so that the next run can prove that it is
    dead. ``applications`` reads every configuration there is. ``patience`` bounds the calls to the cluster in seconds, where the configured limit is too long.
    """
    at = _elsewhere(config, connections, clock, process, applications, LOOK_SECONDS if patience is None else patience)
    credentials = storage_credentials(config, connections)
    repository = open_repository(config, connections, credentials)
    sites = sites_of(config, repository, clock, at)
    here = site if site is not None else sites.destined() if anew else sites.current()
    place = ApplicationAtSite(
        config=config.at(here),
        connections=connections,
        credentials=credentials,
        repository=repository,
        site=here,
        sites=sites,
        at=at,
        clock=clock,
        applications=applications,
    )
    connect = cache(partial(connections.kafka, place.config.source.connection))
    timeout = min(float(place.config.source.timeout_seconds), float("inf") if patience is None else patience)
    with opened(connect, timeout=timeout) as of_cluster:
        yield _tools(place, process, connect, of_cluster)
