"""The preflight on a broker without users: what is seen of topics and releases, and how a plan says it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from streams_recovery.application.command import CommandApplication
from streams_recovery.core.checks.facts import AUTO_CREATE
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity, blocking, blocking_finding
from streams_recovery.core.remedies.remedy import as_refused
from streams_recovery.operations import preflight, restore, savepoint
from streams_recovery.operations.restore import dry_run
from tests.support.applications.savepoint_steps import take
from tests.support.applications.small import Small, asked, configured, lose_state_and_group, surviving
from tests.support.applications.topic_records import produce
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka


@pytest.mark.deep
def test_a_broker_without_an_authorizer_allows_everything_and_tells_its_release(small: Small) -> None:
    facts = small.recovery.cluster.facts()
    assert facts.count == 1
    assert facts.metadata_level is not None
    assert facts.metadata_level >= 30, "4.3 or newer"
    assert facts.settings[AUTO_CREATE] == "false"
    (only,) = preflight.before_backup(small.recovery)
    assert (only.kind, only.severity) == ("cluster-loss", PreflightSeverity.WARNING)
    assert f"the records of {small.input.topic} are not in them. Set backup.survive_cluster_loss: true" in only.text
    assert only.next_step == "backup.survive_cluster_loss: true"
    assert preflight.before_backup(surviving(small).recovery) == ()
    take(small)
    assert preflight.before_restore(small.recovery, small.recovery.savepoints.latest()) == ()
    assert savepoint.before_savepoint(surviving(small).recovery) == ()


@pytest.mark.remedy("as-refused")
@pytest.mark.fault("F90")
def test_what_the_beginning_of_a_savepoint_would_refuse_is_told_by_its_preflight(small: Small) -> None:
    recovery = replace(small.recovery, config=configured(small.recovery, topics={"outputs": [f"{small.output.topic}-gone"]}))
    (blocker,) = blocking(savepoint.before_savepoint(recovery))
    assert (blocker.kind, f"{small.output.topic}-gone" in blocker.text) == ("topics", True)
    (paused,) = blocking(savepoint.before_savepoint(small.recovery, QuiesceMode.PAUSE))
    assert (paused.kind, "cannot be paused" in paused.text) == ("hold", True)
    take(small)
    small.recovery.cluster.delete_topics([small.changelog.topic])
    small.recovery.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    (damaged,) = blocking(savepoint.before_savepoint(small.recovery))
    assert (damaged.kind, small.changelog.topic in damaged.text) == ("state", True)
    lose_state_and_group(small)
    (empty,) = blocking(savepoint.before_savepoint(small.recovery))
    assert (empty.kind, "has no committed offsets" in empty.text) == ("topics", True)
    assert small.recovery.lock.holder() is None


def test_a_pattern_that_means_no_topic_is_told_before_a_savepoint(small: Small) -> None:
    include = [small.input.topic, "nothing-*"]
    recovery = replace(small.recovery, config=configured(small.recovery, topics={"include": include}))
    (told,) = [one for one in preflight.before_backup(recovery) if one.kind == "include"]
    assert (told.severity, "topics.include has nothing-*, and" in told.text) == (PreflightSeverity.WARNING, True)


@pytest.mark.remedy("savepoint-partitions")
@pytest.mark.fault("F89")
def test_an_input_that_gets_partitions_is_told_of_before_a_restore_and_by_the_next_savepoint(small: Small) -> None:
    recovery, before = small.recovery, take(small).savepoint_id
    manifest = recovery.savepoints.latest()
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    [done] = admin.create_partitions([NewPartitions(small.input.topic, 2)]).values()
    done.result(30)
    said = f"{small.input.topic} has 2 partitions, 1 at the savepoint"
    with pytest.raises(Refused, match=said) as caught:
        restore.plan(recovery, asked(recovery, savepoint=before, replace=True))
    assert "choose a savepoint that was taken since an input got other partitions" in caught.value.next_step
    assert "survive_cluster_loss" not in caught.value.next_step
    (blocker,) = blocking(dry_run.before_restore(recovery, manifest))
    assert (blocker.kind, said in blocker.text) == ("plan", True)
    (warned,) = [one for one in savepoint.before_savepoint(recovery) if one.kind == "partitions"]
    assert f"No savepoint up to {before} can be restored" in warned.text
    assert any(f"No savepoint up to {before} can be restored" in one for one in take(small).warnings)
    assert [one for one in savepoint.before_savepoint(recovery) if one.kind == "partitions"] == []
    assert blocking(dry_run.before_restore(recovery, recovery.savepoints.latest())) == ()


@pytest.mark.deep
@pytest.mark.remedy("savepoint-output-emptied")
def test_an_output_that_comes_back_empty_is_told_of_in_preflight_and_plan(small: Small) -> None:
    found = surviving(small)
    saved = take(found).savepoint_id
    assert all(
        "is made again and is empty" not in one for one in restore.plan(found.recovery, asked(found.recovery, replace=True)).warnings
    )
    small.recovery.cluster.delete_topics(small.topics)
    (told,) = [one for one in dry_run.before_restore(found.recovery, found.recovery.savepoints.latest()) if one.kind == "outputs-empty"]
    assert f"output {small.output.topic} is made again and is empty" in told.text
    warned = [
        one for one in restore.plan(found.recovery, asked(found.recovery, savepoint=saved)).warnings if "is made again and is empty" in one
    ]
    assert [small.output.topic in one and "topics.include" in one for one in warned] == [True]


class Barred(CommandApplication):
    """One that may be held and asked, and not be stopped."""

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        state = (blocking_finding("state-not-wipeable", "its state cannot be wiped", as_refused("move it")),) if wipes else ()
        return (blocking_finding("kubernetes-right", "this may not scale it", as_refused("grant it")), *state) if stops else ()


@pytest.mark.deep
def test_what_its_application_lacks_the_right_to_blocks_a_run_that_stops_it(small: Small) -> None:
    verbs = small.recovery.config.runs.command
    assert verbs is not None
    recovery = replace(small.recovery, application=Barred(verbs, small.recovery.application_id))
    found = {mode: [one.kind for one in preflight.before_backup(recovery, mode)] for mode in (QuiesceMode.STOP, QuiesceMode.LIVE)}
    assert "kubernetes-right" in found[QuiesceMode.STOP]
    assert "state-not-wipeable" not in found[QuiesceMode.STOP], "a savepoint wipes nothing"
    assert "kubernetes-right" not in found[QuiesceMode.LIVE]
    assert [one.kind for one in preflight.before_restore(recovery, None)] == ["kubernetes-right", "state-not-wipeable"]
    with pytest.raises(Refused) as caught:
        preflight.required_for_backup(recovery, QuiesceMode.STOP)
    assert caught.value.facts["findings"] == ["this may not scale it: grant it"]


@pytest.mark.deep
@pytest.mark.fault("F22")
def test_an_internal_topic_with_other_partitions_stops_a_plan_unless_it_may_be_replaced(small: Small) -> None:
    take(small)
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    small.recovery.cluster.create_topic(small.changelog.topic, partitions=3, replication_factor=1, config={"cleanup.policy": "compact"})
    with pytest.raises(Refused, match="has 3 partitions") as caught:
        restore.plan(small.recovery, asked(small.recovery))
    assert caught.value.facts["kinds"] == ["partitions"]
    assert [small.changelog.topic in finding for finding in caught.value.facts["findings"]] == [True]
    planned = restore.plan(small.recovery, asked(small.recovery, replace=True))
    (warning,) = planned.warnings
    assert "has 3 partitions, 1 in savepoint" in warning
    assert small.recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].partitions == 3


@pytest.mark.way("preflight")
def test_what_weakens_a_savepoint_or_a_restore_is_said_and_stops_nothing(small: Small) -> None:
    settings = {"message.timestamp.type": "LogAppendTime", "unclean.leader.election.enable": "true"}
    alter(small.recovery.cluster, {small.changelog.topic: dict(settings)})
    found = preflight.before_backup(small.recovery)
    assert {one.severity for one in found} == {PreflightSeverity.WARNING}
    assert {one.kind for one in found} == {"durability", "timestamps", "cluster-loss"}
    take(small)
    produce(small.recovery, small.output, 3)
    planned = restore.plan(small.recovery, asked(small.recovery, replace=True))
    page = planned.text
    for said in ("message.timestamp.type=LogAppendTime", f"{small.output} offsets 4 to 6; 3 offsets in all"):
        assert any(said in warning for warning in planned.warnings)
        assert said in page


@pytest.mark.fault("F88")
def test_a_name_that_the_cluster_takes_for_another_one_is_refused_by_every_plan_and_told_by_the_preflight(small: Small) -> None:
    recovery = replace(small.recovery, config=configured(small.recovery, topics={"include": [small.input.topic]}))
    found = replace(small, recovery=recovery)
    take(found)
    manifest = recovery.savepoints.latest()
    assert manifest is not None
    recovery.cluster.delete_topics(small.topics)
    taken = small.input.topic.replace(".", "_")
    recovery.cluster.create_topic(taken, partitions=1, replication_factor=1, config={})
    try:
        assert blocking(preflight.before_restore(recovery, manifest)) == (), "rights and settings are fine"
        single = restore.RestoreTopics(topics=(small.input.topic,), reason="test")
        for request in (asked(recovery, savepoint=manifest.savepoint_id, replace=True), single):
            with pytest.raises(Refused, match="nothing was changed") as caught:
                restore.plan(recovery, request)
            assert list(caught.value.facts["topics"]) == [small.input.topic]
            assert taken in str(caught.value)
        (blocker,) = blocking(dry_run.before_restore(recovery, manifest))
        assert (blocker.kind, taken in blocker.text) == ("plan", True)
    finally:
        recovery.cluster.delete_topics([taken])
    assert blocking(dry_run.before_restore(recovery, manifest)) == ()
    assert not set(small.topics) & set(recovery.cluster.topic_names()), "asking made nothing"


@pytest.mark.fault("F88")
def test_two_topics_of_one_plan_that_are_one_for_kafka_are_refused_too(small: Small) -> None:
    name = small.recovery.application_id
    mapped = {small.input.topic: f"{name}.same", small.output.topic: f"{name}_same"}
    config = configured(small.recovery, topics={"include": [small.input.topic]}, restore={"topic_map": mapped})
    recovery = replace(small.recovery, config=config)
    saved = take(replace(small, recovery=recovery)).savepoint_id
    with pytest.raises(Refused, match=f"{name}.same and {name}_same: Kafka takes only one of them"):
        restore.plan(recovery, asked(recovery, savepoint=saved, replace=True))


@pytest.mark.deep
@pytest.mark.remedy("restore-label", "restore-replaces")
def test_the_preflight_tells_what_a_restore_needs_an_option_for(small: Small) -> None:
    take(small)
    manifest = small.recovery.savepoints.latest()
    assert manifest is not None
    ahead = replace(manifest, consistency=Consistency.AHEAD)
    assert [(one.kind, one.severity) for one in dry_run.before_restore(small.recovery, ahead)] == [
        ("label", PreflightSeverity.WARNING),
        ("replaces", PreflightSeverity.WARNING),
    ]
    lost = next(iter(small.recovery.repository.sizes(small.recovery.layout.segments)))
    small.recovery.repository.delete([lost])
    (blocker,) = blocking(dry_run.before_restore(small.recovery, manifest))
    assert blocker.kind == "plan"
    assert lost in blocker.text


@pytest.mark.deep
@pytest.mark.fault("F91")
def test_every_preflight_asks_whether_the_store_can_hold_a_repository(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = take(small)
    recovery, careful = small.recovery, asked(small.recovery).safeguards
    manifest = recovery.savepoints.outline(taken.savepoint_id)
    made = {topic.name: topic for topic in manifest.topics if topic.role.internal}
    asks: dict[str, Callable[[], object]] = {
        "a savepoint": lambda: preflight.required_for_backup(recovery, None),
        "a restore": lambda: preflight.required_for_restore(recovery, manifest, careful),
        "a rebuild": lambda: preflight.required_for_rebuild(recovery, careful, None),
        "single topics": lambda: preflight.required_for_topics(recovery, manifest, made, in_place=True, wipes=False),
    }

    def no_hard_links(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "link", no_hard_links)
    for name, ask in asks.items():
        with pytest.raises(Refused) as caught:
            ask()
        assert "store" in caught.value.facts["kinds"], name
    (found,) = (one for one in preflight.of_repository(recovery) if one.severity is PreflightSeverity.BLOCKING)
    assert (found.kind, "cannot hold a repository" in found.text) == ("store", True)
