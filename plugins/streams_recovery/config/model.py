"""One application as data. docs/configuration.md explains every key; include/configs/application.schema.json is made from this file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streams_recovery.config.application import Application, Groups, Output, Source, Store, check_topics
from streams_recovery.config.backup import (
    SURVIVE_CLUSTER_LOSS,
    Access,
    ArchiveSection,
    Backup,
    Check,
    Compact,
    Dags,
    Retention,
    Run,
    Spark,
    Storage,
    archive_problems,
)
from streams_recovery.config.fields import AsSection, ConfigurationName, Section, StoreName, TopicName, whole
from streams_recovery.config.monitor import Monitor, longest_pause
from streams_recovery.config.restore import Clone, Deploy, Restore, clone_problems, real_outputs
from streams_recovery.config.rules import AFTER_SAVEPOINTS
from streams_recovery.config.runs import Runs
from streams_recovery.config.sandbox import Drill, Reprocess, Sandbox, problems_elsewhere, reprocess_problems, sandbox_problems
from streams_recovery.config.sites import Site, SiteName, names_at, site_problems
from streams_recovery.core import codec
from streams_recovery.core.application_kind import Dialect
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.escaping import visible
from streams_recovery.core.kafka_types import Guarantee, Profile, QuiesceMode, StoreKind, TopicRole
from streams_recovery.core.names import internal_examples
from streams_recovery.core.panels import GROUPS
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.savepoint.topology import Declared, Topics

NO_PAUSE_WITH_STANDBY = "Kafka Streams ends an application with standby tasks when it is resumed after a pause (KAFKA-20731)"


class ApplicationConfig(Section):
    """Everything known about one application. ``name`` is its file's stem and how operators choose it."""

    version: Annotated[Literal[1], BeforeValidator(whole)]
    name: ConfigurationName
    application: Application
    source: Source = Source()
    spark: Spark = Spark()
    topics: Annotated[Topics, AsSection(Topics, check_topics)]
    groups: Groups = Groups()
    stores: dict[StoreName, Store] = Field(default_factory=dict)
    outputs: dict[TopicName, Output] = Field(default_factory=dict)
    storage: Storage
    backup: Backup = Field(description=SURVIVE_CLUSTER_LOSS)
    archive: ArchiveSection = ArchiveSection()
    restore: Restore = Restore()
    retention: Retention = Retention()
    check: Check = Check()
    compact: Compact = Compact()
    monitor: Monitor = Monitor()
    drill: Drill | None = None
    reprocess: Reprocess | None = None
    clone: Clone | None = None
    run: Run = Run()
    access: Access = Access()
    dags: Dags = Dags()
    deploy: Deploy | None = None
    runs: Runs
    sites: dict[SiteName, Site] = Field(default_factory=dict)

    @property
    def runs_at_times(self) -> bool:
        """True if the file has the section ``run``: the application is down between its runs."""
        return "run" in self.model_fields_set

    def has_dag(self, dag_id: str) -> bool:
        """True unless the DAG with this id, without the application's name, is of a group that is switched off."""
        return GROUPS[dag_id] not in self.dags.without

    @property
    def from_second_place(self) -> Self:
        """The application with its second place as its repository, and the rules of that one. Raises ``ConfigInvalid`` where it has none."""
        storage = self.storage.from_second_place
        if storage is None:
            raise ConfigInvalid(
                f"{self.name} has no second place",
                next_step="write storage.mirror in the configuration, with the keys of a place as in storage",
            )
        own = {} if self.storage.second_place is None else self.storage.second_place.retention
        return self.model_copy(update={"storage": storage, "retention": self.retention.with_rules(own)})

    @property
    def archived_alone_seconds(self) -> float | None:
        """Seconds for which archived input may be in the first place only, where the second one is filled behind savepoints; None where it has times of its
        own, there is no second one, or nothing is archived.
        """
        second = self.storage.second_place
        behind = self.archive.enabled and second is not None and second.schedule == AFTER_SAVEPOINTS
        return longest_pause(self.backup.schedule) if behind else None

    @property
    def dialect(self) -> Dialect:
        """The particulars of applications of its kind."""
        return self.application.kind.dialect

    def internal_role(self, topic: str) -> TopicRole | None:
        """The role of a topic as an internal one of this application, None if its name is no such name. It does not say whose topic it is."""
        return self.dialect.role(topic, self.application.id)

    def store_kind(self, store: str) -> StoreKind | None:
        """The declared kind of a store; None when nothing was declared, so that names and settings may speak."""
        declared = self.stores.get(store)
        return None if declared is None or declared.kind is StoreKind.UNKNOWN else declared.kind

    def declared(self, profile: Profile, existing: Iterable[str] = ()) -> Declared:
        """The topics and stores that are declared here, for savepoints of this profile. Patterns are looked up among the ``existing`` topics."""
        return Declared(
            **codec.fields_of(Topics, self.topics.on(existing)),
            stores={name: self.store_kind(name) for name in self.stores},
            profile=profile,
            all_read=self.backup.survive_cluster_loss,
        )

    @property
    def unsaved_outputs(self) -> tuple[str, ...]:
        """Outputs whose records savepoints do not have."""
        declared = self.declared(self.backup.profile)
        return tuple(name for name in declared.outputs if not declared.archives(name, TopicRole.OUTPUT))

    @property
    def sources(self) -> dict[str, str]:
        """Stores that Kafka Streams restores from one of their topics in place of a changelog, with that topic."""
        return {name: store.source for name, store in self.stores.items() if store.source is not None}

    @property
    def changelogs(self) -> dict[str, str]:
        """The changelogs of the declared stores that have one, by store."""
        return {name: f"{self.application.id}-{name}-changelog" for name, store in self.stores.items() if store.logged and not store.source}

    @property
    def queryable(self) -> tuple[str, ...]:
        """Stores the application answers for."""
        return tuple(name for name, store in self.stores.items() if store.queryable)

    def names_at(self, site: str) -> dict[str, str]:
        """The names that topics have at a site and not in the rest of the file."""
        return dict(self.sites[site].topic_map) if site in self.sites else {}

    def _elsewhere(self, sandbox: Sandbox, home: str, *, follows: bool) -> list[str]:
        """Everything that would let a sandbox touch this application at another site than its home. One that ``follows`` is where the application belongs."""
        if not self.sites:
            return []
        at = {site: self.at(site) for site in (PRIMARY, *self.sites)}
        return problems_elsewhere(
            self.application.id, sandbox, home, at, {site: self.names_at(site) for site in at if site != home} if follows else {}
        )

    def at(self, site: str) -> Self:
        """The application as it is configured at a site. Only of a configuration as it was written, not of one at a site. Raises ``ConfigInvalid`` for a
        site that is not configured.
        """
        if site not in (PRIMARY, *self.sites):
            raise ConfigInvalid(
                f"{self.name} has no site {visible(site[:100])!r}; known: {', '.join((PRIMARY, *self.sites))}",
                next_step="name one that is in the section sites of the configuration, or write it there",
                site=site[:100],
            )
        names = names_at(self.sites, site, self.restore.topic_map)
        if site == PRIMARY:
            return self.model_copy(update={"restore": self.restore.model_copy(update={"topic_map": names})}) if self.sites else self
        there, topics = self.sites[site], self.topics
        called = {role: there.called(getattr(topics, role)) for role in ("inputs", "outputs", "globals", "include", "exclude")}
        stores = {
            name: store if store.source is None else store.model_copy(update={"source": there.called([store.source])[0]})
            for name, store in self.stores.items()
        }
        restore = {"topic_map": names, "replication_factor": there.replication_factor or self.restore.replication_factor}
        changes = {
            "source": self.source.model_copy(update={"connection": there.connection}),
            "topics": replace(topics, **called),
            "outputs": {there.called([name])[0]: output for name, output in self.outputs.items()},
            "stores": stores,
            "restore": self.restore.model_copy(update=restore),
            "runs": there.runs,
        }
        return self.model_copy(update=changes)

    @property
    def no_pause_because(self) -> str | None:
        """The reason why the application cannot be paused for a savepoint, None when it can."""
        if (why_not := self.dialect.refused.get(QuiesceMode.PAUSE)) is not None:
            return why_not
        if self.application.standby_replicas:
            return f"it has standby replicas, and {NO_PAUSE_WITH_STANDBY}"
        return self.runs.chosen.no_pause_because

    @property
    def quiesce_mode(self) -> QuiesceMode:
        """The way in which the application is held for a savepoint: as configured, else paused where it can be, else stopped."""
        default = QuiesceMode.PAUSE if self.no_pause_because is None else QuiesceMode.STOP
        return self.backup.consistency.mode or default

    def may_stop(self, mode: QuiesceMode) -> bool:
        """True when a savepoint in this mode stops the application, or may: only one that leaves it alone falls back to anything."""
        return mode is QuiesceMode.STOP or (mode is QuiesceMode.LIVE and self.backup.consistency.fallback == "stop")

    @model_validator(mode="after")
    def _within_its_kind(self) -> Self:
        problems = list(_kind_problems(self))
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _paused_only_where_it_can_be(self) -> Self:
        consistency = self.backup.consistency
        if consistency.mode is QuiesceMode.PAUSE or consistency.fallback == "pause":
            for site in (PRIMARY, *self.sites):
                if (why_not := self.at(site).no_pause_because) is not None:
                    where = "" if site == PRIMARY else f" at {site}"
                    raise ValueError(
                        f"backup.consistency: {self.application.id} cannot be paused{where}: {why_not}; write mode: stop, with which it is closed and started "
                        "again for every savepoint, or mode: live, and no fallback: pause"
                    )
        return self

    @model_validator(mode="after")
    def _nothing_in_clear(self) -> Self:
        if self.storage.encryption is not None and self.storage.encryption.enabled and self.access.show_values:
            raise ValueError(
                "access.show_values: runs would store keys and values in clear, and storage.encryption encrypts records; write show_values: false, and look "
                "with `streams-recovery state`"
            )
        return self

    @model_validator(mode="after")
    def _sites_apart(self) -> Self:
        problems = site_problems(self.internal_role, self.topics, self.runs, self.source.connection, self.sites)
        if self.sites and self.clone is not None:
            problems.append("sites: a clone has none; it stands where the application is that it is a clone of")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _archived_as_promised(self) -> Self:
        problems = [*archive_problems(self.declared(self.backup.profile))]
        if self.archive.enabled and not self.backup.survive_cluster_loss:
            problems.append("archive: what it archives is behind the inputs that savepoints have; write backup.survive_cluster_loss: true")
        if self.archive.state:
            problems += self._no_cuts()
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _no_cuts(self) -> Iterator[str]:
        """The reasons why no running application with this configuration can be cut exactly."""
        if not self.archive.enabled:
            yield "archive.state: it is the archiver that takes cuts; write archive.enabled: true"
        if self.application.guarantee is not Guarantee.EXACTLY_ONCE_V2:
            yield "archive.state: a running application can be cut exactly only where its guarantee is exactly_once_v2"
        if read_too := self.topics.loops:
            yield f"archive.state: the application reads {', '.join(read_too)}, which it writes itself, and a cut is through what others write"
        if self.backup.profile is not Profile.FULL:
            yield "archive.state: cuts are behind savepoints with state; write backup.profile: full"

    @model_validator(mode="after")
    def _own_topics_only(self) -> Self:
        for topic in self.topics.declared:
            if self.internal_role(topic):
                raise ValueError(f"topics: {topic} is an internal topic of {self.application.id}; those are found by themselves")
        if any(self.topics.reads(name) for name in internal_examples(self.application.id)):
            raise ValueError(
                f"topics.input_patterns: they mean internal topics of {self.application.id} too, which it would read as input; begin each with what the "
                "names of the inputs begin with"
            )
        for key, named in (("owned", self.topics.owned), ("foreign", self.topics.foreign)):
            for topic in named:
                if not self.internal_role(topic):
                    raise ValueError(
                        f"topics.{key}: {topic} is not called like an internal topic of {self.application.id}, so nothing would take it for one"
                    )
        for store, changelog in self.changelogs.items():
            if changelog in self.topics.foreign:
                raise ValueError(f"topics.foreign: {changelog} is the changelog of the store {store}")
        return self

    @model_validator(mode="after")
    def _restored_from_own_topics(self) -> Self:
        read = {*self.topics.inputs, *self.topics.globals}
        for store, topic in self.sources.items():
            if topic not in read and not self.topics.reads(topic):
                raise ValueError(f"stores.{store}.source: {topic} is neither in topics.inputs nor in topics.globals")
        return self

    @model_validator(mode="after")
    def _outputs_known(self) -> Self:
        known = self.topics.outputs if self.clone is None else real_outputs(self.topics, self.restore.topic_map).values()
        for name in self.outputs:
            if name not in known:
                raise ValueError(
                    f"outputs: {name} is no output; write the name that the real output has, which is in topics.outputs, or for a clone in restore.topic_map"
                )
        return self

    @model_validator(mode="after")
    def _drill_apart(self) -> Self:
        if self.drill is not None and self.drill.enabled:
            home = self.drill.site or PRIMARY
            if home not in (PRIMARY, *self.sites):
                raise ValueError(f"drill.site: there is no site {home}; known: {', '.join((PRIMARY, *self.sites))}")
            there = self.at(home)
            found = sandbox_problems(self.application.id, there.topics, there.runs, self.drill.sandbox.where(self.names_at(home)))
            problems = found if home == PRIMARY else [f"{problem}, at {home}" for problem in found]
            problems += self._elsewhere(self.drill.sandbox, home, follows=self.drill.site is None)
            if problems:
                raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _intervals_apart(self) -> Self:
        if self.reprocess is not None and self.reprocess.enabled:
            problems = reprocess_problems(self.application.id, self.topics, self.runs, self.reprocess)
            problems += [
                f"reprocess.tables: {name} is called {names[name]} at {site}, and the archive has both names; an application with sites can name no such table"
                for site in self.sites
                for name, names in ((name, self.names_at(site)) for name in self.reprocess.tables)
                if name in names
            ]
            for sandbox in () if problems else self.reprocess.examples():
                problems += self._elsewhere(sandbox, PRIMARY, follows=True)
            if problems:
                raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _clone_apart(self) -> Self:
        if self.clone is not None:
            problems = clone_problems(self.name, self.topics, self.restore.topic_map, self.runs, self.clone)
            if problems:
                raise ValueError("; ".join(problems))
        return self


def _kind_problems(config: ApplicationConfig) -> Iterator[str]:
    """Everything in the configuration that applications of this kind cannot do, each with the reason."""
    dialect, consistency = config.dialect, config.backup.consistency
    # That it cannot be paused has a message of its own.
    if (why_not := dialect.refused.get(QuiesceMode.LIVE)) is not None and consistency.mode is QuiesceMode.LIVE:
        yield f"backup.consistency: mode live is not possible with {dialect.product}: {why_not}; write mode: stop"
    for section, why_not in dialect.sections.items():
        found = getattr(config, section)
        if found is not None and getattr(found, "enabled", True):
            yield f"{section}: not possible with {dialect.product}: {why_not}"
    for name, store in config.stores.items():
        if dialect.stores is not None and store.kind not in dialect.stores:
            yield (
                f"stores.{name}.kind: {store.kind} is a kind of Kafka Streams; a table of {dialect.product} is key-value, and the key of a windowed one is "
                "JSON of key and window"
            )
        if not dialect.prefixed and store.source is not None:
            yield f"stores.{name}.source: {dialect.product} restores a table from its changelog only"
    yield from _unknown_places(config)
    if not dialect.prefixed:
        yield from _names_of_inputs(config)


def _names_of_inputs(config: ApplicationConfig) -> Iterator[str]:
    """Keys that need another way to know topics than their names, where names of repartition topics come from the code and from the inputs."""
    dialect = config.dialect
    if config.application.topology_command is not None:
        yield f"application.topology_command: {dialect.product} has no Topology#describe(), so a new version cannot be compared with a savepoint"
    if config.topics.input_patterns:
        yield f"topics.input_patterns: no test has brought an application of {dialect.product} back that reads by pattern; name the topics in topics.inputs"
    maps = {"restore": config.restore.topic_map, **{f"sites.{name}": site.topic_map for name, site in config.sites.items()}}
    for where, topic_map in maps.items():
        renamed = sorted(set(topic_map) & set(config.topics.inputs))
        if renamed:
            yield (
                f"{where}.topic_map: {', '.join(renamed)} cannot have another name, because the names of {dialect.product}'s repartition topics have the "
                "name of the input in them: what is unread there would not be found again"
            )


def _unknown_places(config: ApplicationConfig) -> Iterator[str]:
    """Ways to run the application in which its local state would not be removed."""
    dialect = config.dialect
    ways = {"runs": config.runs, **{f"sites.{name}.runs": site.runs for name, site in config.sites.items()}}
    for where, runs in ways.items():
        if dialect.runs is not None and runs.kind not in dialect.runs:
            yield (
                f"{where}: kind {runs.kind} does not know where {dialect.product} has its local state, and stale state must not stay behind a restore; "
                f"supported: {', '.join(sorted(dialect.runs))}"
            )
