"""One application as data. docs/configuration.md explains every key; include/configs/application.schema.json is made from this file."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from streams_recovery.config.application import Application, Groups, Source, Store, Topics
from streams_recovery.config.clone import Clone, clone_problems
from streams_recovery.config.copies import Backup, Restore, Spark, Storage
from streams_recovery.config.drill import Drill, drill_problems
from streams_recovery.config.fields import (
    ConfigurationName,
    Section,
    StoreName,
)
from streams_recovery.config.reprocess import Reprocess, reprocess_problems
from streams_recovery.config.running import Runs
from streams_recovery.config.upkeep import Compact, Retention, Run, Verify
from streams_recovery.core.model import QuiesceMode, StoreKind
from streams_recovery.core.names import internal_role

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
    backup: Backup = Backup()
    restore: Restore = Restore()
    retention: Retention = Retention()
    verify: Verify = Verify()
    compact: Compact = Compact()
    drill: Drill | None = None
    reprocess: Reprocess | None = None
    clone: Clone | None = None
    run: Run = Run()
    runs: Runs

    def store_kind(self, store: str) -> StoreKind | None:
        """The declared kind of a store; None when nothing was declared, so that names and settings may speak."""
        declared = self.stores.get(store)
        return None if declared is None or declared.kind is StoreKind.UNKNOWN else declared.kind

    @property
    def queryable(self) -> tuple[str, ...]:
        """Stores the application answers for."""
        return tuple(name for name, store in self.stores.items() if store.queryable)

    @model_validator(mode="after")
    def _standby_is_not_paused(self) -> Self:
        consistency = self.backup.consistency
        pauses = consistency.mode is QuiesceMode.PAUSE or (consistency.mode is QuiesceMode.LIVE and consistency.fallback == "pause")
        if self.application.standby_replicas and pauses:
            raise ValueError(
                f"{NO_PAUSE_WITH_STANDBY}; backup.consistency.mode must be stop, or live with another fallback, as long as application.standby_replicas "
                "is not 0"
            )
        return self

    @model_validator(mode="after")
    def _own_topics_only(self) -> Self:
        for topic in self.topics.declared:
            if internal_role(topic, self.application.id):
                raise ValueError(f"topics: {topic} is an internal topic of {self.application.id}; those are found by themselves")
        return self

    @model_validator(mode="after")
    def _drill_apart(self) -> Self:
        if self.drill is not None and self.drill.enabled:
            problems = drill_problems(self.application.id, self.topics, self.runs, self.drill)
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
