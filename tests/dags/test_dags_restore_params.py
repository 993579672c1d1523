"""What a person may ask a restore for, and what reaches it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowException

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.strategies import STRATEGIES, parse
from streams_recovery.core.repository.mirror import Where
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.core.restore.single_topics import ReadOn
from streams_recovery.operations.restore.strategies import AsOfMoment, FromSavepoint, OfInterval, Rebuild, RestoreTopics, Undo
from streams_recovery.operators.base import place_of
from tests.support.airflow.parsed_dags import (
    CLONE,
    DRILL,
    MOMENT,
    NAME,
    OF_A_PERSON,
    PITR,
    REBUILD,
    REQUESTED,
    RESCALE,
    RESTORE,
    TOPICS,
    UNDO,
    UPGRADE,
    request,
)

pytestmark = pytest.mark.usefixtures("a_clone")


@pytest.mark.fault("F60")
@pytest.mark.parametrize(
    "conf",
    [
        {"application": "nobody"},
        {"savepoint": "../../x"},
        {"savepoint": "latest; rm -rf /"},
        {"allow_ahead": "perhaps"},
        {"allow_ahead": "True"},
        {"replace": "true"},
        {"delete": "a"},
        {"delete": [""]},
        {"delete": ["../x"]},
        {"delete": ["a", "b; c"]},
        {"confirm": 1},
        {"replace": "perhaps"},
        {"compare_keys": "perhaps"},
        {"safety": "none"},
        {"offsets": "oldest"},
        {"offsets": "shift:x"},
        {"offsets": "file:../x"},
        {"offsets": "file:/etc/passwd"},
        {"offsets": "latest; x"},
    ],
)
def test_params_that_do_not_fit_are_refused(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    param = dags[RESTORE].params.get_param(name)
    param.resolve()
    with pytest.raises((AirflowException, ValueError)):
        param.resolve(conf[name])


@pytest.mark.parametrize("inputs_from", ["../../x", "before:latest", "none", "latest; x"])
def test_inputs_come_from_no_savepoint_that_is_none(dags: dict[str, Any], inputs_from: str) -> None:
    dag = dags[REBUILD]
    assert (request(dag, "plan").inputs_from, request(dag, "open_restore", inputs_from="latest").inputs_from) == ("", "latest")
    with pytest.raises((AirflowException, ValueError)):
        request(dag, "plan", inputs_from=inputs_from)


@pytest.mark.parametrize(("dag_id", "task_id"), REQUESTED)
def test_by_default_a_restore_replaces_nothing_and_saves_what_is_there(dags: dict[str, Any], dag_id: str, task_id: str) -> None:
    asked = request(dags[dag_id], task_id)
    # An undo replaces what is there, so its confirmation is typed.
    assert asked.safeguards == Safeguards(replace=dag_id in (UNDO, RESCALE))
    assert not asked.compare_keys
    match asked:
        case FromSavepoint():
            assert (dag_id in (RESTORE, DRILL, CLONE), asked.allow_ahead, asked.allow_damaged) == (True, False, False)
            assert (asked.source != "") == (dag_id in (DRILL, CLONE))
        case Undo():
            assert (dag_id, asked.allow_ahead, asked.allow_damaged) == (UNDO, False, False)
        case Rebuild():
            assert (dag_id, asked.accept_gap, asked.inputs_from, asked.outputs) == (REBUILD, False, "", OutputPolicy.KEEP)
            assert (asked.input_topics, asked.internal_topics) == ((), ())
        case AsOfMoment():
            assert (dag_id, asked.allow_ahead, asked.in_place, asked.groups, asked.source) == (PITR, False, False, (), "")
        case OfInterval():
            pytest.fail("no form asks for an interval")


def test_what_the_commands_can_read_from_the_second_place_their_dags_can_too(dags: dict[str, Any]) -> None:
    # streams-recovery restore, with a moment too, and undo: what else has --from there has no DAG.
    assert {dag_id for dag_id, dag in dags.items() if "place" in dag.params} == {RESTORE, PITR, UNDO}
    for dag_id in (RESTORE, PITR, UNDO):
        param = dags[dag_id].params.get_param("place")
        assert (param.resolve(), param.resolve("mirror")) == ("", "mirror")
        with pytest.raises((AirflowException, ValueError)):
            param.resolve("elsewhere")
    asked, others = (cast("Any", {"params": {"place": one}}) for one in ("mirror", "a param of somebody's own"))
    knows, knows_none = (dags[dag_id].get_task("load_records") for dag_id in (RESTORE, REBUILD))
    assert place_of(knows, asked) == Where.MIRROR
    assert place_of(knows_none, others) is None
    # A run may have been triggered with anything, and the second place may have left the configuration since: the first one is not taken in its stead.
    with pytest.raises(ConfigInvalid, match="does not know one"):
        place_of(knows_none, asked)


@pytest.mark.fault("F60")
@pytest.mark.parametrize(("dag_id", "task_id"), REQUESTED)
def test_what_the_form_does_not_ask_for_is_never_done(dags: dict[str, Any], dag_id: str, task_id: str) -> None:
    # Airflow takes whatever stands in a run's conf, and checks only what the DAG declares.
    everything = {
        "source": NAME,
        "allow_ahead": True,
        "allow_damaged": True,
        "replace": True,
        "delete": ["a"],
        "safety": "skip",
        "outputs": "recreate",
        "accept_gap": True,
        "inputs_from": "latest",
        "input_topics": ["c"],
        "internal_topics": ["d"],
        "as_of": MOMENT,
        "by": "position",
        "in_place": True,
        "groups": ["b"],
        "compare_keys": True,
        "confirm": "orders",
        "offsets": "latest",
    }
    dag = dags[dag_id]
    conf = {name: value for name, value in everything.items() if name not in dag.params}
    assert request(dag, task_id, **conf) == request(dag, task_id)


def test_what_a_person_chose_reaches_the_restore(dags: dict[str, Any]) -> None:
    chosen = {"replace": True, "delete": ["a", "b"], "safety": "skip", "confirm": "orders", "reason": "why"}
    for dag_id, task_id in OF_A_PERSON:
        dag = dags[dag_id]
        if dag_id == TOPICS:
            # No state is replaced, so there is nothing to guard.
            assert request(dag, task_id, **{name: value for name, value in chosen.items() if name in dag.params}).reason == "why"
            continue
        asked = request(dag, task_id, **{name: value for name, value in chosen.items() if name in dag.params})
        if dag_id == UPGRADE:
            # Nothing is replaced, and its way back is never skipped.
            assert (asked.safeguards, asked.reason) == (Safeguards(), "why")
            continue
        # The way back of both is never skipped.
        safety = SafetyPolicy.REQUIRED if dag_id in (UNDO, RESCALE) else SafetyPolicy.SKIP
        assert asked.safeguards == Safeguards(replace=True, delete=("a", "b"), safety=safety, confirm="orders")
        assert asked.reason == "why"


@pytest.mark.parametrize(
    ("dag_id", "plan"), [(RESTORE, "plan"), (UNDO, "plan"), (PITR, "plan"), (CLONE, "clone.plan"), (CLONE, "upgrade.plan")]
)
def test_keys_are_compared_only_when_somebody_asks_for_it(dags: dict[str, Any], dag_id: str, plan: str) -> None:
    assert [request(dags[dag_id], plan, compare_keys=wish).compare_keys for wish in (False, True)] == [False, True]


@pytest.mark.parametrize("offsets", [strategy.FORM for strategy in STRATEGIES if strategy.KIND != "file"])
def test_every_strategy_for_offsets_reaches_a_restore(dags: dict[str, Any], offsets: str) -> None:
    for task_id in ("plan", "open_restore"):
        asked = request(dags[RESTORE], task_id, offsets=offsets, confirm="orders")
        assert (asked.offsets, asked.safeguards.confirm) == (parse(offsets, group="", read=lambda _name: b""), "orders")


@pytest.mark.parametrize("offsets", [None, ""])
def test_without_a_strategy_offsets_are_as_configured(dags: dict[str, Any], offsets: str | None) -> None:
    configured = request(dags[RESTORE], "plan").offsets
    assert request(dags[RESTORE], "open_restore", offsets=offsets).offsets == configured
    assert request(dags[RESTORE], "plan", offsets="latest").offsets != configured


def test_offsets_come_from_a_file_of_the_configurations_only(dags: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalid, match=r"offsets\.csv"):
        request(dags[RESTORE], "plan", offsets="file:offsets.csv")


def test_inputs_are_cut_where_they_are_only_when_that_was_said_with_everybody_who_reads_them(dags: dict[str, Any]) -> None:
    for task_id in ("plan", "open_restore"):
        asked = request(dags[PITR], task_id, in_place=True, groups=["one", "two"])
        assert (asked.in_place, asked.groups) == (True, ("one", "two"))


def test_which_topics_partitions_and_moment_a_person_means_reaches_the_restore(dags: dict[str, Any]) -> None:
    asked = {
        "topics": ["orders"],
        "new_name": "orders-copy",
        "partitions": [0, 2],
        "read_on": "end",
        "as_of": "2026-11-21T12:00:00Z",
        "by": "position",
    }
    for task_id in ("plan", "open_restore"):
        found = request(dags[TOPICS], task_id, **asked)
        assert isinstance(found, RestoreTopics)
        assert (found.topics, found.new_name, found.partitions, found.read_on) == (("orders",), "orders-copy", (0, 2), ReadOn.END)
        assert found.cut_at == AsOf(moment=1_795_262_400_000, by=CutBy.POSITION)
        plain = request(dags[TOPICS], task_id, topics=["orders"])
        assert plain == RestoreTopics(topics=("orders",), reason=""), (
            "without a moment all records come back, whatever the configuration says"
        )


@pytest.mark.parametrize(
    "conf", [{"topics": ["../x"]}, {"topics": "orders"}, {"new_name": "a b"}, {"partitions": [-1]}, {"partitions": ["x"]}, {"read_on": "?"}]
)
def test_what_no_topic_and_no_partition_can_be_is_refused(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    with pytest.raises(AirflowException):
        request(dags[TOPICS], "plan", **conf)


@pytest.mark.parametrize(
    "as_of", [None, "2026-11-21T12:00:00Z", "2026-11-21T12:00:00.5+01:00", "2026-11-21T12:00 Europe/Vienna", "2026-11-21T12:00Z"]
)
def test_a_moment_has_a_time_zone(dags: dict[str, Any], as_of: str | None) -> None:
    param = dags[PITR].params.get_param("as_of")
    assert param.resolve(as_of) == as_of
    assert param.schema["format"] == "date-time", "the form shows a date picker"


@pytest.mark.parametrize(
    "conf",
    [{"as_of": "2026-11-21T12:00:00"}, {"as_of": "2026-11-21"}, {"as_of": "yesterday"}, {"by": "offset"}, {"savepoint": "before:latest"}],
)
def test_what_is_no_moment_never_becomes_a_run(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    with pytest.raises((AirflowException, ValueError)):
        dags[PITR].params.get_param(name).resolve(conf[name])
