"""Topics, their configurations and the ends of their logs, as one cluster has them."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel

from streams_recovery.core.checks.facts import BrokerFacts
from streams_recovery.core.errors import NotFound, RecoveryError, Refused, TransientError
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition
from streams_recovery.core.preflight.permissions import Rights
from streams_recovery.core.topic_settings import InForce, topic_defaults
from streams_recovery.core.words import first_names
from streams_recovery.kafka import errors, log_batches, logs, permissions
from streams_recovery.kafka.clients import ClusterVerbs, Deadline
from streams_recovery.kafka.group_messages import list_group_kinds

K = TypeVar("K")
V = TypeVar("V")
TopicShape = tuple[int, int, Mapping[str, str]]
"""Partitions, replicas and settings of a topic."""
Answers = Mapping[K, Mapping[str, Any]]
Ask = Callable[[Mapping[K, V]], Answers[K]]

# A controller of Kafka takes no request for more than 10,000 (KAFKA-12905), and answers a small one sooner than a client gives up.
_PARTITIONS_AT_ONCE = 2_000
# What is left of the 249 characters of a name for a number behind it.
_ASKED = 220
# Far longer than brokers need to show a setting; what is not shown then was altered again.
_SHOWN_SECONDS = 1.0
_GONE: Final = frozenset({errors.UNKNOWN_TOPIC_OR_PARTITION, errors.UNKNOWN_TOPIC_ID})


class KafkaCluster(ClusterVerbs):
    """One cluster. Verbs raise ``BrokerUnavailable`` when no broker answers, ``TransientError`` when the cluster stayed busy for
    the whole timeout, ``NotFound`` for a name that does not exist and ``Refused`` for a missing right. It deletes what it is told to delete: the caller checks
    that it is not needed.
    """

    def cluster_id(self) -> str:
        """The id the cluster was formatted with."""
        return str(self._metadata().cluster_id)

    def default_cleanup_policy(self) -> str:
        """``log.cleanup.policy``: what topics without an override of ``cleanup.policy`` have."""
        return self._broker_settings(min(self._metadata().brokers))["log.cleanup.policy"]

    def defaults_of_one(self) -> dict[str, str]:
        """The settings that a topic without overrides has on one broker. None without the right to read a broker's settings."""
        return topic_defaults(self.facts().settings) if self.facts().settings else {}

    def topic_defaults(self) -> tuple[dict[str, str], ...]:
        """By broker, the settings that a topic without overrides has there, of those that decide what it keeps and takes."""
        return tuple(topic_defaults(self._broker_settings(broker)) for broker in sorted(self._metadata().brokers))

    def facts(self) -> BrokerFacts:
        """The brokers that are up, and what one of them says about itself. Without the right to read its settings there are none."""
        racks = self.racks()

        def ask() -> Any:
            # Supported, not finalized: an upgraded cluster may stay at an older finalized level, which hides the release.
            return self._clients.pure.describe_features().get("metadata.version", {}).get("supported")

        level = self._clients.patiently("asking for the brokers' features", ask)
        try:
            settings = self._broker_settings(min(racks))
        except Refused as error:
            if error.facts.get("code") != errors.CLUSTER_AUTHORIZATION_FAILED:
                raise
            settings = {}
        return BrokerFacts(racks=racks, settings=settings, metadata_level=level[1] if level else None)

    def rights(self, topics: Collection[str], group_id: str) -> Rights:
        """Rights of the connection's user on these topics, this group, transactional ids that begin with its name, and the cluster."""
        return Rights(
            principal=permissions.principal(self._clients.connection),
            bootstrap_servers=self._clients.connection.bootstrap_servers,
            topics=permissions.on_topics(self._clients, topics),
            group=permissions.on_group(self._clients, group_id),
            cluster=permissions.on_cluster(self._clients),
            cluster_readable=bool(self.facts().settings),
            transactional_ids=permissions.sees_transactional_id(self._clients, f"{group_id}-preflight"),
        )

    def settings(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Every setting of these topics as it is in force, defaults included. Raises ``NotFound`` for one that does not exist."""
        return self._clients.patiently("reading topic settings", lambda: logs.read_in_force(self._clients, topics))

    def topic_names(self) -> tuple[str, ...]:
        """Every topic that the connection may see, in order, Kafka's own among them."""
        return tuple(sorted(self._metadata().topics))

    def groups(self) -> dict[str, str]:
        """Every group's id with its kind: ``classic``, ``consumer``, ``streams`` or ``share``."""
        return {group_id: listed.kind for group_id, listed in list_group_kinds(self._clients).items()}

    def describe_topics(self, names: Collection[str]) -> dict[str, TopicDescription]:
        """The topics among ``names`` that exist. One that appears or goes while it is described is asked for again."""

        def ask() -> dict[str, TopicDescription]:
            shapes = self._shapes(names)
            settings = logs.read_topics(self._clients, shapes)
            return {name: _description(shape, *settings[name]) for name, shape in shapes.items()}

        deadline = Deadline(self._clients.timeout)
        while True:
            try:
                return self._clients.patiently("describing topics", ask)
            except NotFound as error:
                if "code" not in error.facts:
                    # It was not the cluster that said so: its connection is missing.
                    raise
                # Metadata had the topic and the configurations did not: it is just being created or deleted.
                if not deadline.pause():
                    raise TransientError(
                        f"topics are neither there nor gone: {error.reason}", next_step="try again; if it stays, check the brokers' health"
                    ) from error

    def broker_ids(self) -> tuple[int, ...]:
        """The brokers that are up."""
        return tuple(sorted(self._metadata().brokers))

    def racks(self) -> dict[int, str | None]:
        """The brokers that are up, with the rack of each that says one."""
        described = self._clients.patiently("describing the cluster", self._clients.pure.describe_cluster)
        # It has fenced brokers too: those that are down, and on which nothing can be placed.
        racks = {int(broker["broker_id"]): broker["rack"] or None for broker in described["brokers"]}
        return {broker: racks.get(broker) for broker in self.broker_ids()}

    def replicas(self, names: Collection[str]) -> dict[TopicPartition, tuple[int, ...]]:
        """The brokers that each partition of these topics is on, the preferred leader first."""
        shapes = self._clients.patiently("describing topics", lambda: self._shapes(names))
        return {
            TopicPartition(name, int(part["partition_index"])): tuple(map(int, part["replica_nodes"]))
            for name, shape in shapes.items()
            for part in shape["partitions"]
        }

    def create_topic(self, name: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> TopicDescription:
        """One topic: see ``create_topics``."""
        return self.create_topics({name: (partitions, replication_factor, config)})[name]

    def create_topics(self, wanted: Mapping[str, TopicShape]) -> dict[str, TopicDescription]:
        """Create topics with their partitions, replicas and settings, and wait until a leader answers for every partition. Raises ``Refused`` when one exists
        or the cluster does not want it so; others may have been created by then.
        """
        for several in _portions(wanted):
            self._create(several)
        self._wait_for_leaders({name: partitions for name, (partitions, _, _) in wanted.items()})
        deadline = Deadline(self._clients.timeout)
        # Brokers hear of it one after the other, and each look may ask another one.
        while gone := wanted.keys() - (created := self.describe_topics(wanted.keys())).keys():
            if not deadline.pause():
                name = min(gone)
                raise Refused(f"topic {name} was deleted right after it was created", next_step="find out who deletes it", topic=name)
        return created

    def _create(self, several: Mapping[str, TopicShape]) -> None:
        def ask(left: Mapping[str, TopicShape]) -> Answers[str]:
            # Each until it is answered for: after a lost answer a second request would find the new topic, and refuse it as another program's.
            with self._clients.requesting(f"creating {_named(left)}"):
                return {topic["name"]: topic for topic in self._clients.pure.create_topics(_as_asked(left), raise_errors=False)["topics"]}

        self._as_fast_as_allowed(several, ask, _not_created)

    def _as_fast_as_allowed(self, wanted: Mapping[K, V], ask: Ask[K, V], failed: Callable[[K, Mapping[str, Any]], RecoveryError]) -> None:
        """Ask the controller for all of ``wanted``, and again for those that are too many for its quota, as long as some are done within the timeout. Raises
        what ``failed`` makes of any other refusal.
        """
        deadline, left = Deadline(self._clients.timeout), dict(wanted)
        while left:
            refused = {key: answer for key, answer in ask(left).items() if answer["error_code"]}
            if len(refused) < len(left):
                deadline = Deadline(self._clients.timeout)
            late = bool(refused) and not deadline.pause()
            for key, answer in refused.items():
                # Who may change so much in a second: nothing was done about those that are too many for it.
                if answer["error_code"] != errors.THROTTLING_QUOTA_EXCEEDED or late:
                    raise failed(key, answer)
            left = {key: left[key] for key in refused}

    def refused_topics(self, wanted: Mapping[str, TopicShape]) -> dict[str, str]:
        """Reasons why the cluster would not create some of these topics, by topic: a policy of it, or a setting that it does not take. Creates nothing.
        A topic that exists is passed over: nothing is known of it then.
        """
        answered = []
        for several in _portions(wanted):
            answered += self._validated(several, f"asking whether {_named(several)} could be created")
        return {
            topic["name"]: f"{errors.name_of(topic['error_code'])} {topic.get('error_message') or ''}".rstrip()
            for topic in answered
            if topic["error_code"] not in (0, errors.TOPIC_ALREADY_EXISTS)
        }

    def _validated(self, several: Mapping[str, TopicShape], doing: str) -> list[Mapping[str, Any]]:
        """The answer of the cluster if these topics were created. A controller that is busy, or over its quota, has not answered for a topic yet."""
        deadline, left = Deadline(self._clients.timeout), dict(several)
        answered: list[Mapping[str, Any]] = []
        while True:
            with self._clients.requesting(doing):
                found = self._clients.pure.create_topics(_as_asked(left), validate_only=True, raise_errors=False)["topics"]
            late = {one["name"]: one for one in found if isinstance(errors.by_code(one["error_code"], ""), TransientError)}
            answered += [one for one in found if one["name"] not in late]
            if not late:
                return answered
            if not deadline.pause():
                code = next(iter(late.values()))["error_code"]
                raise errors.by_code(code, f"{doing} failed: {errors.name_of(code)}")
            left = {name: left[name] for name in late}

    def refused_settings(self, topic: str, settings: Collection[tuple[str, str]], *, replicas: int) -> dict[tuple[str, str], str]:
        """The settings among these, by name and value, that the cluster does not take of any topic, with its reason. Creates nothing. ``topic`` is the name of
        one that would be created with so many ``replicas``: a user who may create only names with this beginning is answered too. A policy that forbids such a
        topic without any setting says nothing about settings; what is answered otherwise does not either.
        """
        plain = f"{topic[:_ASKED]}-asked"
        asked = {f"{plain}-{number}": one for number, one in enumerate(sorted(settings))}
        answered: dict[str, Mapping[str, Any]] = {}
        for several in _portions({plain: (1, replicas, {})} | {name: (1, replicas, dict([one])) for name, one in asked.items()}):
            answered |= {one["name"]: one for one in self._validated(several, f"asking which settings of {topic} it takes")}
        if answered[plain]["error_code"] == errors.INVALID_REPLICATION_FACTOR and replicas > 1:
            # Fewer brokers than replicas: then nothing was said of settings. How many there are to be, the plan's own question finds.
            return self.refused_settings(topic, settings, replicas=1)
        of_settings = {errors.INVALID_CONFIG} | ({errors.POLICY_VIOLATION} if not answered[plain]["error_code"] else set())
        return {
            asked[name]: str(one.get("error_message") or errors.name_of(one["error_code"]))
            for name, one in answered.items()
            if name in asked and one["error_code"] in of_settings
        }

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete the topics that have these names now: see ``delete_exactly``. Those that do not exist are passed over."""
        shapes = self._clients.patiently("describing topics", lambda: self._shapes(names))
        self.delete_exactly({name: _topic_id(shape["topic_id"]) for name, shape in shapes.items()})

    def delete_exactly(self, ids: Mapping[str, str]) -> None:
        """Delete these topics, which are named with the id of each, and wait until no answer of the cluster has them any more. A topic that has the name by now
        and another id is another one, and stays.
        """

        def ask(left: Mapping[uuid.UUID, str]) -> Answers[uuid.UUID]:
            # By their ids, so harmless to repeat: whoever comes late, or asks twice, deletes nothing that was created meanwhile.
            found = self._clients.patiently("deleting topics", lambda: self._clients.pure.delete_topics(list(left), raise_errors=False))
            answers = {uuid.UUID(str(topic["topic_id"])): topic for topic in found["topics"]}
            return {raw: answer for raw, answer in answers.items() if answer["error_code"] not in _GONE}

        def failed(raw: uuid.UUID, answer: Mapping[str, Any]) -> RecoveryError:
            code = answer["error_code"]
            return errors.by_code(code, f"deleting topic {wanted[raw]} failed: {errors.name_of(code)}")

        wanted = {_raw_id(topic_id): name for name, topic_id in sorted(ids.items())}
        self._as_fast_as_allowed(wanted, ask, failed)
        deadline = Deadline(self._clients.timeout)
        while left := self._still_there(ids):
            if not deadline.pause():
                raise TransientError(f"topics are still there after their deletion: {left}", next_step="try again", topics=left)

    def _still_there(self, ids: Mapping[str, str]) -> list[str]:
        """The topics that an answer of the cluster has. Both clients are asked: each may ask another broker, and one that still has a topic still tells of it.
        Only one of them tells the id.
        """
        names = set(self.topic_names()) & ids.keys() if ids else set()
        shapes = self._clients.patiently("describing topics", lambda: self._shapes(list(ids)))
        others = {name for name, shape in shapes.items() if _topic_id(shape["topic_id"]) != ids[name]}
        return sorted((names | shapes.keys()) - others)

    def change_configs(self, names: Collection[str], change: logs.Change) -> None:
        """Alter each topic by what ``change`` makes of its overrides, and again until it makes nothing of them on any broker: others may write the same
        settings at the same moment, and the last one wins. Raises ``TransientError`` naming topics that stayed unlike that.
        """
        deadline = Deadline(self._clients.timeout)
        wanted = self._wanted(names, change, None)
        while wanted:
            self._clients.patiently("altering topic configurations", partial(logs.alter, self._clients, wanted))
            wanted = self._not_shown(names, change)
            if wanted and not deadline.remaining:
                raise TransientError(
                    f"these settings were altered and are not shown, or others have altered them again: {wanted}",
                    next_step="try again; if it stays, find out what else sets them",
                    missing=wanted,
                )

    def max_message_bytes(self, topic: str) -> int:
        """The largest batch, after compression, that the topic takes: its own setting or the cluster's."""
        name = "max.message.bytes"
        return int(self._clients.patiently(f"reading {name} of topic {topic}", lambda: logs.read_topic_setting(self._clients, topic, name)))

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that is still there."""
        return logs.list_offsets(self._clients, partitions, logs.EARLIEST, IsolationLevel.READ_UNCOMMITTED)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The end, records of open transactions included."""
        return logs.list_offsets(self._clients, partitions, logs.LATEST, IsolationLevel.READ_UNCOMMITTED)

    def last_stable_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The end below which every transaction is decided."""
        return logs.list_offsets(self._clients, partitions, logs.LATEST, IsolationLevel.READ_COMMITTED)

    def offsets_for_times(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int | None]:
        """The first offset whose record's timestamp is ``timestamp`` (ms) or later; None if no record's is."""
        found = logs.list_offsets(self._clients, partitions, logs.at_time(timestamp), IsolationLevel.READ_UNCOMMITTED)
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    def newest_timestamps(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The highest timestamp (ms) in each log, None for a log without records."""
        return logs.newest_timestamps(self._clients, partitions)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The end, in each log as it is now, of the records written up to a leader epoch; None if the broker does not know the epoch."""
        return logs.epoch_ends(self._clients, epochs)

    def whole_logs(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> frozenset[TopicPartition]:
        """The partitions of which each offset ``[start, end)``, below the high watermark, is as it was written: the log cleaner has taken nothing."""
        return log_batches.whole_logs(self._clients, ranges)

    def names_with_nul(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, list[int]]:
        """The offsets in each range of records with a header whose name has a NUL byte. Raises as ``whole_logs``."""
        return log_batches.names_with_nul(self._clients, ranges)

    def log_dirs(self, partitions: Mapping[str, int]) -> tuple[logs.LogDir, ...]:
        """The brokers' disks: the bytes of topics with so many ``partitions``, and the space that is left."""
        return logs.read_log_dirs(self._clients, partitions, self._metadata().brokers)

    def log_sizes(self, partitions: Mapping[str, int]) -> dict[TopicPartition, int]:
        """The bytes of each partition of topics with so many, as its largest replica has them. Raises as ``read_log_dirs``."""
        found: dict[TopicPartition, int] = {}
        for directory in self.log_dirs(partitions):
            for tp, size in directory.logs.items():
                found[tp] = max(found.get(tp, 0), size)
        return found

    def _metadata(self) -> Any:
        return self._clients.patiently(
            "reading the cluster's metadata", lambda: self._clients.librdkafka.list_topics(timeout=self._clients.attempt_timeout)
        )

    def _broker_settings(self, broker: int) -> dict[str, str]:
        doing = f"reading the settings of broker {broker}"
        return self._clients.patiently(doing, lambda: logs.read_broker_settings(self._clients, broker))

    def _shapes(self, names: Collection[str]) -> dict[str, Any]:
        answer = self._clients.pure.describe_topics(sorted(names)) if names else []
        for topic in answer:
            if topic["error_code"] not in (0, errors.UNKNOWN_TOPIC_OR_PARTITION, errors.LEADER_NOT_AVAILABLE):
                code = topic["error_code"]
                raise errors.by_code(code, f"describing topic {topic['name']} failed: {errors.name_of(code)}")
        return {topic["name"]: topic for topic in answer if topic["error_code"] != errors.UNKNOWN_TOPIC_OR_PARTITION}

    def _wait_for_leaders(self, wanted: Mapping[str, int]) -> None:
        deadline, left, waiting = Deadline(self._clients.timeout), dict(wanted), len(wanted)
        while True:
            shapes = self._clients.patiently(f"describing {_named(left)}", partial(self._shapes, list(left)))
            led = {name: sum(part["leader_id"] >= 0 for part in shape["partitions"]) for name, shape in shapes.items()}
            left = {
                name: partitions
                for name, partitions in left.items()
                if name not in led or not led[name] == partitions == len(shapes[name]["partitions"])
            }
            if not left:
                break
            if len(left) < waiting:
                deadline, waiting = Deadline(self._clients.timeout), len(left)
            if not deadline.pause():
                name, partitions = next(iter(left.items()))
                raise TransientError(
                    f"topic {name} has leaders for {led.get(name, 0)} of {partitions} partitions", next_step="try again", topic=name
                )
        # Metadata names a leader before that broker knows that it is one.
        self.log_starts([TopicPartition(name, number) for name, partitions in wanted.items() for number in range(partitions)])

    def _wanted(self, names: Collection[str], change: logs.Change, broker: int | None) -> logs.Changes:
        doing = f"reading topic configurations of broker {'any' if broker is None else broker}"
        found = self._clients.patiently(doing, lambda: logs.read_overrides(self._clients, names, broker=broker))
        return {name: altered for name, overrides in found.items() if (altered := change(overrides))}

    def _not_shown(self, names: Collection[str], change: logs.Change) -> logs.Changes:
        """Changes that the first broker that does not show them within a moment has still to show."""
        for broker in sorted(self._metadata().brokers):
            shown = Deadline(_SHOWN_SECONDS)
            while wanted := self._wanted(names, change, broker):
                if not shown.pause():
                    return wanted
        return {}


def _portions(wanted: Mapping[str, TopicShape]) -> Iterator[dict[str, TopicShape]]:
    """Topics in portions that a controller takes at once; a larger one alone."""
    portion: dict[str, TopicShape] = {}
    count = 0
    for name, shape in wanted.items():
        if portion and count + shape[0] > _PARTITIONS_AT_ONCE:
            yield portion
            portion, count = {}, 0
        portion[name] = shape
        count += shape[0]
    if portion:
        yield portion


def _as_asked(wanted: Mapping[str, TopicShape]) -> dict[str, dict[str, object]]:
    return {
        name: {"num_partitions": partitions, "replication_factor": replicas, "configs": dict(config)}
        for name, (partitions, replicas, config) in wanted.items()
    }


def _not_created(name: str, answer: Mapping[str, Any]) -> RecoveryError:
    code = answer["error_code"]
    if code == errors.TOPIC_ALREADY_EXISTS:
        return Refused(
            f"topic {name} already exists",
            next_step="nothing was done to it; find out whose it is and what it holds before anybody deletes it, or choose another name",
            topic=name,
        )
    return errors.by_code(code, f"creating topic {name} failed: {errors.name_of(code)} {answer.get('error_message') or ''}".rstrip())


def _named(topics: Collection[str]) -> str:
    return f"topic{'s' if len(topics) > 1 else ''} {first_names(topics)}"


def _description(shape: Mapping[str, Any], overrides: dict[str, str], in_force: dict[str, InForce]) -> TopicDescription:
    partitions = sorted(shape["partitions"], key=lambda part: int(part["partition_index"]))
    return TopicDescription(
        name=shape["name"],
        topic_id=_topic_id(shape["topic_id"]),
        partitions=len(partitions),
        replication_factor=max((len(part["replica_nodes"]) for part in partitions), default=0),
        config=overrides,
        in_force=in_force,
        leader_epochs=tuple(part["leader_epoch"] if part.get("leader_epoch", -1) >= 0 else None for part in partitions),
    )


def _topic_id(raw: object) -> str:
    # Kafka's own tools write ids as URL-safe base64 without padding; ours can be compared with theirs.
    return base64.urlsafe_b64encode(uuid.UUID(str(raw)).bytes).rstrip(b"=").decode()


def _raw_id(topic_id: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{topic_id}=="))
