"""Sections about savepoints, the repository and the rights on it: ``backup``, ``storage``, ``access``, ``dags``, ``archive``, ``spark``, and the work on a
schedule (``retention``, ``check``, ``compact``, ``run``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self, cast, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from streams_recovery.config.fields import (
    AsSection,
    ConfigurationName,
    ConnectionId,
    Duration,
    Integer,
    LocalPath,
    Seconds,
    Section,
    Switch,
    Text,
    Url,
    accepted_by,
    default_of,
)
from streams_recovery.config.rules import AFTER_SAVEPOINTS, Level, RunLimit, Schedule, ScheduleBehindSavepoints
from streams_recovery.core.approval import ApprovalRule
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import Profile, QuiesceMode, TopicRole
from streams_recovery.core.names import matches_any
from streams_recovery.core.panels import DagGroup
from streams_recovery.core.repository.encryption import Provider
from streams_recovery.core.repository.layout import Encryption, StorageLocation, overlap, place_in
from streams_recovery.core.repository.retention import Apply
from streams_recovery.core.repository.seal import public_bytes
from streams_recovery.core.savepoint.topology import Declared
from streams_recovery.core.waiting import RateLimits
from streams_recovery.core.words import milliseconds

SURVIVE_CLUSTER_LOSS = (
    "survive_cluster_loss: true archives the records of inputs and globals too, so that a savepoint can be restored into a cluster that lost all topics; "
    "with false a restore needs the inputs to be there still"
)


class ConsistencyPolicy(Section):
    """The way in which the application is held for a cut, and what to do when exactness could not be proven. Without a ``mode`` it is paused where it can be,
    and stopped where it cannot: see ``ApplicationConfig.quiesce_mode``. ``unknown_members`` is what to do when the group has members that no known instance
    accounts for: to refuse, or to take the savepoint of the application as it runs, which is ``ahead`` unless transactions prove more.
    """

    mode: QuiesceMode | None = None
    require: Literal["exact", "ahead_allowed"] = "exact"
    fallback: Literal["none", "pause", "stop"] = "none"
    attempts: Annotated[Integer, Field(ge=1, le=100)] = 5
    timeout_seconds: Seconds = 120
    unknown_members: Literal["refuse", "ahead"] = "refuse"


class Backup(Section):
    """Savepoints, and when they are taken. ``schedule`` null or ``none`` means only by hand. ``profile`` minimal leaves out the records of internal
    topics. With ``survive_cluster_loss`` those of every input and global are archived too: all that a cluster needs which has nothing any more.
    """

    survive_cluster_loss: Switch = Field(description=SURVIVE_CLUSTER_LOSS)
    schedule: Schedule = "H * * * *"
    profile: Profile = Profile.FULL
    consistency: ConsistencyPolicy = ConsistencyPolicy()
    compression_level: Annotated[Integer, Field(ge=1, le=19)] = 3
    segment_max_records: Annotated[Integer, Field(ge=1_000, le=100_000_000)] = 500_000
    full_every_days: Annotated[Integer, Field(ge=1, le=365)] = 7
    full_after_savepoints: Annotated[Integer, Field(ge=1, le=10_000)] = 168


_NO_KEY: Final = "none"


def _keys(value: object) -> object:
    """A list without its entries ``none``. Raises ``ValueError`` for a null: a variable that has lost its value must not take a key away in silence."""
    if not isinstance(value, list | tuple):
        return value
    if None in value:
        raise ValueError(
            f"entry {value.index(None) + 1} is null, perhaps a variable without a value; write {_NO_KEY} where no key is meant"
        )
    return [one for one in value if one != _NO_KEY]


PublicKeys = Annotated[tuple[Annotated[Text, AfterValidator(accepted_by(public_bytes))], ...], BeforeValidator(_keys)]


class SealSection(Section):
    """Signatures on everything that is stored. Whoever writes has the private key, in a connection's password or in a file; whoever reads needs
    ``public_keys`` only. ``withdrawn_keys`` were among them until they were stolen. ``enabled`` is for a variable that switches it.
    """

    enabled: Switch = True
    public_keys: PublicKeys = ()
    withdrawn_keys: PublicKeys = ()
    connection: ConnectionId | None = None
    key_file: LocalPath | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.connection is not None and self.key_file is not None:
            raise ValueError("connection and key_file both name the private key; keep one")
        if self.enabled and not self.public_keys:
            raise ValueError("public_keys is empty; `streams-recovery seal-key FILE` makes a pair of keys")
        if both := set(self.public_keys) & set(self.withdrawn_keys):
            raise ValueError(f"{min(both)} is in public_keys and in withdrawn_keys; keep one")
        return self


class EncryptionKey(Section):
    """A key-encryption key. ``key`` is ``local``, or a service and the key's address there: ``aws:ARN``, ``google:projects/...``, ``azure:https://...`` or
    ``vault:https://...``. ``connection`` has the credentials of the service, or a local key as its password; ``key_file`` has a local key, too. One of the
    ``mirror`` is the second place's own: what is there can be read with it alone.
    """

    key: Text
    connection: ConnectionId | None = None
    key_file: LocalPath | None = None
    mirror: Switch = False

    @property
    def provider(self) -> Provider:
        return cast("Provider", self.key.partition(":")[0])

    @property
    def address(self) -> str:
        return self.key.partition(":")[2]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider not in get_args(Provider) or (self.provider == "local") != (self.address == ""):
            raise ValueError(f"key is {self.key}; write local, or {', '.join(f'{one}:ADDRESS' for one in get_args(Provider)[1:])}")
        if self.provider != "local" and self.key_file is not None:
            raise ValueError("key_file is for a local key; the credentials of a service are in a connection")
        if self.provider in ("local", "vault") and (self.connection is None) == (self.key_file is None):
            raise ValueError(
                f"a {self.provider} key needs a connection" + (" or a key_file, and not both" if self.provider == "local" else "")
            )
        return self


class EncryptionSection(Section):
    """Encryption of records with the owner's keys. The first of ``keys`` wraps data keys, and so does the first one of the second place; all of them unwrap.
    ``enabled`` is for a variable that switches it: what is encrypted can be read only while it is on.
    """

    enabled: Switch = True
    keys: tuple[EncryptionKey, ...] = ()

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.enabled and not self.keys:
            raise ValueError("keys is empty; the first one encrypts, and `openssl rand -base64 32` makes a local one")
        if self.enabled and all(one.mirror for one in self.keys):
            raise ValueError("keys has only those of the second place (mirror: true); the first place needs one too")
        return self


class StoragePlace(Section):
    """A place for a repository. Keys of the backend that is not chosen are checked but unused, so that a variable can choose between them."""

    backend: Literal["filesystem", "s3", "gcs", "azure"]
    path: LocalPath | None = None
    account: Text | None = None
    bucket: Text | None = None
    prefix: str | None = None
    region: Text | None = None
    endpoint: Url | None = None
    connection: ConnectionId | None = None
    path_style: Switch = False
    allow_http: Switch = False
    ca_file: LocalPath | None = None
    sse: Encryption | None = None
    kms_key_id: Text | None = None

    @property
    def location(self) -> StorageLocation:
        """The place of the repository, without the way to its credentials."""
        if self.backend == "filesystem":
            return StorageLocation(backend="filesystem", path=self.path)
        amazon = self.backend == "s3"
        return StorageLocation(
            backend=self.backend,
            account=self.account if self.backend == "azure" else None,
            bucket=self.bucket,
            prefix=(self.prefix or "").strip("/"),
            region=self.region if amazon else None,
            endpoint=self.endpoint,
            path_style=self.path_style and amazon,
            allow_http=self.allow_http,
            ca_file=self.ca_file,
            sse=self.sse if amazon else None,
            kms_key_id=self.kms_key_id if amazon else None,
        )

    @model_validator(mode="before")
    @classmethod
    def _addressed(cls, given: Any) -> Any:
        """Take an address in ``bucket`` apart: people paste one there."""
        if not isinstance(given, dict) or "://" not in str(given.get("bucket")) or given.get("backend") == "filesystem":
            return given
        found = place_in(str(given["bucket"]))
        for name, value in found.items():
            if name != "bucket" and given.get(name) not in (None, value):
                raise ValueError(f"bucket is the address of {name} {value}, and {name} is {given[name]}; keep one of them")
        return given | found

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for needed in _NEEDED[self.backend]:
            if getattr(self, needed) is None:
                raise ValueError(f"backend is {self.backend}, so {needed} is needed")
        if self.backend != "filesystem" and "/" in str(self.bucket):
            name, _, below = str(self.bucket).strip("/").partition("/")
            raise ValueError(f"bucket is a name without folders; write bucket: {name}" + (f" and prefix: {below}" if below else ""))
        if self.backend != "filesystem" and (self.endpoint or "").startswith("http://") and not self.allow_http:
            raise ValueError("endpoint is not encrypted; use https, or set allow_http: true where the network is trusted")
        if self.kms_key_id and self.sse != "aws:kms":
            raise ValueError("kms_key_id is used by sse: aws:kms only")
        if self.sse and self.backend in ("gcs", "azure"):
            raise ValueError(f"sse is a header of S3; set the encryption of the bucket at {self.backend}, and leave sse out")
        if any(part in (".", "..") for part in (self.prefix or "").split("/")):
            raise ValueError("prefix must not contain '.' or '..'")
        return self


_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "filesystem": ("path",),
    "s3": ("bucket",),
    "gcs": ("bucket",),
    "azure": ("account", "bucket"),
}


RetentionRule = Literal[
    "keep_last", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly", "minimum", "grace_days", "safety_days", "work_days"
]


def _rules(own: dict[RetentionRule, int]) -> dict[RetentionRule, int]:
    Retention().with_rules(own)
    return own


class Mirror(StoragePlace):
    """The second place of the repository, with the same seals. ``schedule`` is when it is filled: behind each savepoint, or at times of its own.
    ``enabled`` is for a variable that switches it. ``retention`` has rules of its own, by which a person makes room there; what it leaves out is as in the
    repository's.
    """

    enabled: Switch = True
    schedule: ScheduleBehindSavepoints = AFTER_SAVEPOINTS
    retention: Annotated[dict[RetentionRule, Integer], AfterValidator(_rules)] = Field(default_factory=dict)


class FirstPlace(Mirror):
    """What was the repository, where its second place is read and written in its stead."""


class Storage(StoragePlace):
    """The repository, and a second place for it."""

    seal: SealSection | None = None
    encryption: EncryptionSection | None = None
    mirror: Mirror | None = None

    @property
    def second_place(self) -> Mirror | None:
        """The mirror, None where it is switched off."""
        return self.mirror if self.mirror is not None and self.mirror.enabled else None

    @property
    def from_second_place(self) -> Self | None:
        """The same two places the other way round: the mirror is the repository, and what was the repository is its mirror. None without one."""
        second = self.second_place
        if second is None:
            return None
        own, others = ({name: getattr(one, name) for name in StoragePlace.model_fields} for one in (self, second))
        return self.model_copy(update={**others, "mirror": FirstPlace.model_construct(**own, schedule=None)})

    @property
    def moved(self) -> dict[str, dict[str, Any]]:
        """The sections to write when the second place has become the repository: its own keys and no second place, and the rules that it had of its own."""
        given = {} if self.second_place is None else self.second_place.model_dump(mode="json", exclude_defaults=True)
        storage = {name: given[name] for name in StoragePlace.model_fields if name in given}
        return {"storage": storage, **({"retention": given["retention"]} if "retention" in given else {})}

    @property
    def is_turned_round(self) -> bool:
        """True where the second place is read and written in place of the repository."""
        return isinstance(self.mirror, FirstPlace)

    @property
    def place_option(self) -> tuple[str, ...]:
        """The words by which a command reads and writes the same place."""
        return ("--from", "mirror") if self.is_turned_round else ()

    @model_validator(mode="after")
    def _two_places(self) -> Self:
        second = self.second_place
        if second is not None and (why := overlap(self.location, second.location)) is not None:
            raise ValueError(f"mirror: {why}; a copy in the same place is lost with it")
        return self


Person = Annotated[Text, Field(max_length=256)]
Role = Annotated[Text, Field(max_length=64)]


class DagRight(enum.StrEnum):
    """Rights of a role on the DAGs of an application: to see them, or to run them too."""

    VIEW = "view"
    RUN = "run"


class Access(Section):
    """With ``own_dags`` the application has restore DAGs of its own, so that Airflow can give rights on them. ``roles`` gives these rights to roles of the
    FAB auth manager. ``sources`` are other applications whose savepoints the own DAGs may read. ``approvers`` are the users who may approve a
    plan, empty for everybody whom Airflow lets; with ``approvers_exclude_trigger`` never the one who triggered the run. With ``show_values`` runs
    that compare savepoints and look up keys log and store keys and values.
    """

    own_dags: Switch = False
    roles: dict[Role, DagRight] | None = None
    sources: tuple[ConfigurationName, ...] = ()
    approvers: tuple[Person, ...] = ()
    approvers_exclude_trigger: Switch = False
    show_values: Switch = False

    @property
    def approval(self) -> ApprovalRule:
        """The rule that says who may approve."""
        return ApprovalRule(approvers=self.approvers, exclude_trigger=self.approvers_exclude_trigger)

    @model_validator(mode="after")
    def _only_with_own_dags(self) -> Self:
        if not self.own_dags and (self.roles is not None or self.sources):
            raise ValueError(
                "roles and sources are about the application's own DAGs; write own_dags: true: the DAGs that all applications share have the rights of "
                "all of them"
            )
        return self


class Dags(Section):
    """The groups of DAGs that there are not for the application. A DAG that all applications share does not offer it then."""

    without: tuple[DagGroup, ...] = ()


_LEAST_MS, _MOST_MS = 1_000, 3_600_000


def _check_interval(text: str) -> None:
    if not _LEAST_MS <= milliseconds(text) <= _MOST_MS:
        raise ConfigInvalid(f"{text} is not from a second to an hour", next_step="write it like PT10S or PT1M")


class ArchiveSection(Section):
    """Inputs and globals are archived every ``interval``, behind the newest savepoint, so that the loss of a cluster costs seconds of input. It
    reads as much as ``throttle`` allows in an interval. With ``state`` changelogs are archived too, up to one exact cut after the other. With ``dag`` a DAG
    archives; without it ``streams-recovery archive`` has to be run as a service.
    """

    enabled: Switch = False
    interval: Annotated[Duration, AfterValidator(accepted_by(_check_interval))] = "PT10S"
    state: Switch = False
    dag: Switch = True
    throttle: Annotated[RateLimits, AsSection(RateLimits)] = default_of(RateLimits)


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


# Where no other connection is named; the command line does without it.
SPARK_CONNECTION: Final = "spark_default"


class Spark(Section):
    """The Spark that moves records, by the id of an Airflow connection. ``allow_insecure_rpc`` lets driver and workers of a cluster talk unauthenticated and
    unencrypted. With ``always`` Spark does small jobs too, which one process does sooner.
    """

    connection: ConnectionId = SPARK_CONNECTION
    allow_insecure_rpc: Switch = False
    always: Switch = False


Count = Annotated[Integer, Field(ge=0, le=100_000)]


def _merge_files(value: int) -> int:
    if value == 1:
        raise ValueError("expected 0 for never, or at least 2: one file alone cannot be merged")
    return value


MergeFiles = Annotated[Integer, Field(ge=0, le=10_000), AfterValidator(_merge_files)]


def _apply(value: Any) -> Any:
    # YAML has its own true and false.
    word = str(value).lower() if isinstance(value, (bool, str)) else value
    if word not in tuple(Apply):
        raise ValueError(f"expected true, false or after_days, found {value!r}")
    return Apply(word)


Applied = Annotated[
    Apply,
    BeforeValidator(_apply),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "after_days"}, {"type": "string", "pattern": r"\$\{"}]}),
]


class Retention(Section):
    """Savepoints that stay. One that any rule keeps is kept; ``minimum`` newest exact ones stay whatever the rules say. Files of one that expired
    stay ``grace_days`` longer. Safety savepoints are kept ``safety_days``, artifacts of runs that are over ``work_days``. ``schedule`` null or ``none``
    means only by hand. ``apply`` says whether runs of the schedule delete: always, never, or from ``after_days`` days after they have announced it.
    ``merge_files`` small files of a partition that lie side by side become one, before anything expires; fewer of them too when they make a file of at least
    half of ``backup.segment_max_records``. 0 means never.
    """

    schedule: Schedule = "H 2 * * *"
    apply: Applied = Apply.AFTER_DAYS
    after_days: Annotated[Integer, Field(ge=1, le=365)] = 14
    grace_days: Annotated[Integer, Field(ge=1, le=3_650)] = 7
    safety_days: Annotated[Integer, Field(ge=1, le=3_650)] = 30
    work_days: Annotated[Integer, Field(ge=7, le=3_650)] = 30

    keep_last: Count = 24
    keep_hourly: Count = 48
    keep_daily: Count = 14
    keep_weekly: Count = 8
    keep_monthly: Count = 12
    minimum: Annotated[Integer, Field(ge=1, le=1_000)] = 3
    merge_files: MergeFiles = 24

    def with_rules(self, own: Mapping[RetentionRule, int]) -> Self:
        """With other rules in the place of some of these. Raises ``ValueError`` for a number that is none."""
        return self.model_validate({**{name: getattr(self, name) for name in type(self).model_fields}, **own})


class Check(Section):
    """Checks of the repository, and how deep they go: ``structure``, ``full`` or a share such as ``sample=10%``."""

    schedule: Schedule = "H 3 * * 0"
    level: Level = "sample=10%"


class Compact(Section):
    """Compaction of the newest savepoint to the newest record of each key. ``schedule`` null or ``none`` means only by hand."""

    schedule: Schedule = None


class Run(Section):
    """Runs of an application that is down in between, and how far they go: to the ``ends`` of its inputs at the start, or for a ``duration:PT30M``.
    ``schedule`` null or ``none`` means only by hand.
    """

    schedule: Schedule = None
    until: RunLimit = "ends"
    timeout_minutes: Annotated[Integer, Field(ge=1, le=10_080)] = 360
