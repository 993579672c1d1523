"""One application as data. docs/configuration.md explains every key; include/configs/application.schema.json is made from this file."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from streams_recovery.config.access import Access
from streams_recovery.config.application import Application, Groups, Source, Store, Topics
from streams_recovery.config.archive_check import archive_problems
from streams_recovery.config.backup import SURVIVE_CLUSTER_LOSS, Backup
from streams_recovery.config.clone import Clone, clone_problems
from streams_recovery.config.drill import Drill
from streams_recovery.config.fields import (
    ConfigurationName,
    Section,
    StoreName,
)
from streams_recovery.config.maintenance import Check, Compact, Retention, Run
from streams_recovery.config.monitor import Monitor
from streams_recovery.config.reprocess import Reprocess, reprocess_problems
from streams_recovery.config.restore import Restore
from streams_recovery.config.runs import Runs
from streams_recovery.config.sandbox import sandbox_problems
from streams_recovery.config.spark import Spark
from streams_recovery.config.storage import Storage
from streams_recovery.core.kafka_types import Profile, QuiesceMode, StoreKind
from streams_recovery.core.names import internal_role
from streams_recovery.core.savepoint.topology import Declared

NO_PAUSE_WITH_STANDBY = "Kafka Streams ends an application with standby tasks when it is resumed after a pause (KAFKA-20731)"


class ApplicationConfig(Section):
    """Everything known about one application. ``name`` is its file's stem and how operators choose it."""

    version: Literal[1]
    name: ConfigurationName
    application: Application
    source: Source = Source()
    spark: Spark = Spark()
    topics: Topics
    groups: Groups = Groups()
    stores: dict[StoreName, Store] = Field(default_factory=dict)
    storage: Storage
    backup: Backup = Field(description=SURVIVE_CLUSTER_LOSS)
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
    runs: Runs

    def store_kind(self, store: str) -> StoreKind | None:
        """The declared kind of a store; None when nothing was declared, so that names and settings may speak."""
        declared = self.stores.get(store)
        return None if declared is None or declared.kind is StoreKind.UNKNOWN else declared.kind

    def declared(self, profile: Profile) -> Declared:
        """What is said here about topics and stores, for savepoints of this profile."""
        return Declared(
            inputs=self.topics.inputs,
            outputs=self.topics.outputs,
            globals=self.topics.globals,
            include=self.topics.include,
            exclude=self.topics.exclude,
            stores={name: self.store_kind(name) for name in self.stores},
            profile=profile,
            all_read=self.backup.survive_cluster_loss,
        )

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

    @property
    def no_pause_because(self) -> str | None:
        """Why the application cannot be paused for a savepoint, None when it can."""
        if self.application.standby_replicas:
            return f"it has standby replicas, and {NO_PAUSE_WITH_STANDBY}"
        return self.runs.chosen.no_pause_because

    @property
    def quiesce_mode(self) -> QuiesceMode:
        """How the application is held for a savepoint: as configured, else paused where it can be, else stopped."""
        default = QuiesceMode.PAUSE if self.no_pause_because is None else QuiesceMode.STOP
        return self.backup.consistency.mode or default

    @model_validator(mode="after")
    def _paused_only_where_it_can_be(self) -> Self:
        consistency, why_not = self.backup.consistency, self.no_pause_because
        if why_not is not None and (consistency.mode is QuiesceMode.PAUSE or consistency.fallback == "pause"):
            raise ValueError(
                f"backup.consistency: {self.application.id} cannot be paused: {why_not}; write mode: stop, with which it is closed and started again for "
                "every savepoint, or mode: live, and no fallback: pause"
            )
        return self

    @model_validator(mode="after")
    def _archived_as_promised(self) -> Self:
        problems = [*archive_problems(self.declared(self.backup.profile))]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _own_topics_only(self) -> Self:
        for topic in self.topics.declared:
            if internal_role(topic, self.application.id):
                raise ValueError(f"topics: {topic} is an internal topic of {self.application.id}; those are found by themselves")
        for key, named in (("owned", self.topics.owned), ("foreign", self.topics.foreign)):
            for topic in named:
                if not internal_role(topic, self.application.id):
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
            if topic not in read:
                raise ValueError(f"stores.{store}.source: {topic} is neither in topics.inputs nor in topics.globals")
        return self

    @model_validator(mode="after")
    def _drill_apart(self) -> Self:
        if self.drill is not None and self.drill.enabled:
            problems = sandbox_problems(self.application.id, self.topics, self.runs, self.drill.sandbox)
            if problems:
                raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _intervals_apart(self) -> Self:
        if self.reprocess is not None and self.reprocess.enabled:
            problems = reprocess_problems(self.application.id, self.topics, self.runs, self.reprocess)
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
