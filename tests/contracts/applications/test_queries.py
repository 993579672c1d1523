"""Interactive queries over all instances."""

from __future__ import annotations

import json

import pytest

from streams_recovery.application.port import NoKeyRoute
from streams_recovery.core.errors import (
    ApplicationNotReady,
    NotFound,
    PermanentError,
)
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion
from tests.support.applications.states import started


def test_query_merges_instances(any_rig):
    one = any_rig(per_instance=[{"STORE": json.dumps({"a": 1, "": None})}, {"STORE": json.dumps({"b": {"x": 2}})}])
    assert started(one).query("totals") == {"a": 1, "": None, "b": {"x": 2}}


@pytest.mark.deep
def test_query_waits_for_a_rebalance(speaking_rig):
    one = speaking_rig(environment={"BUSY": "3"}, per_instance=[{"STORE": '{"a": 1}'}])
    assert started(one).query("totals") == {"a": 1}


@pytest.mark.deep
def test_a_rebalance_that_does_not_end_is_not_an_answer(speaking_rig):
    one = speaking_rig(environment={"BUSY": "10000"}, start_timeout=1)
    with pytest.raises(ApplicationNotReady, match="503"):
        started(one).query("totals")


@pytest.mark.deep
def test_two_instances_that_contradict_each_other_are_damaged(speaking_rig):
    one = speaking_rig(start_timeout=1, per_instance=[{"STORE": '{"k": 1}'}, {"STORE": '{"k": 2}'}])
    with pytest.raises(PermanentError, match="different values"):
        started(one).query("totals")


def test_a_key_that_is_there_twice_is_damaged(local):
    one = local(per_instance=[{"STORE": "{}"}])
    application = started(one)
    from streams_recovery.application.http_control import json_object

    with pytest.raises(PermanentError, match="twice"):
        json_object(b'{"k": 1, "k": 2}', where="here")
    with pytest.raises(NotFound):
        application.query("no-such-store")


@pytest.mark.deep
def test_no_running_instance_answers_nothing_rather_than_an_empty_store(speaking_rig):
    one = speaking_rig(start_timeout=1)
    with pytest.raises(ApplicationNotReady, match="no instance is running"):
        one.open().query("totals")


def test_the_topology_is_the_first_that_an_instance_offers(any_rig):
    text = "Topologies:\n   Sub-topology: 0\n    Source: in (topics: [orders])\n      --> none\n"
    one = any_rig(per_instance=[{"STORE": "{}"}, {"TOPOLOGY": text}])
    application = started(one)
    found = application.topology()
    assert found is None if type(application).__name__ == "CommandApplication" else found.read == {"orders"}
    application.stop(timeout=10)
    assert application.topology() is None


def test_a_description_that_cannot_be_read_is_none(speaking_rig):
    assert started(speaking_rig(environment={"TOPOLOGY": "no such thing"})).topology() is None


def asked(application, *keys, store="totals"):
    return application.query_keys([KeyQuestion(store=store, key=key) for key in keys])


def test_each_key_is_asked_of_the_instance_that_has_it(any_rig):
    one = any_rig(
        environment={"ELSEWHERE": "1"}, per_instance=[{"STORE": '{"a": 1, "{key}": null}'}, {"STORE": '{"b/\u00fc": {"x": 2}, "c": 3}'}]
    )
    answers = asked(started(one), "b/\u00fc", "a", "{key}", "c")
    assert [(answer.found, answer.value) for answer in answers] == [(True, {"x": 2}), (True, 1), (True, None), (True, 3)]
    assert len({answer.instance for answer in answers}) == 2
    assert answers[0].instance == answers[3].instance


@pytest.mark.deep
def test_a_key_that_is_nowhere_and_a_store_that_is_none_are_told_apart(speaking_directory_rig):
    application = started(speaking_directory_rig(per_instance=[{"STORE": "{}"}, {"STORE": "{}"}]))
    assert asked(application, "a") == (KeyAnswer(instance="one", found=False),)
    with pytest.raises(NoKeyRoute):
        asked(application, "a", store="others")


@pytest.mark.deep
def test_a_key_waits_for_a_rebalance(speaking_rig):
    one = speaking_rig(environment={"BUSY": "3"}, per_instance=[{"STORE": '{"a": 1}'}])
    assert asked(started(one), "a")[0].value == 1


@pytest.mark.deep
def test_an_application_without_queries_by_key_is_not_asked(speaking_rig):
    application = started(speaking_rig(control={"query_key": None}, per_instance=[{"STORE": '{"a": 1}'}]))
    with pytest.raises(NoKeyRoute, match="offers no queries by key"):
        asked(application, "a")
    assert application.query("totals") == {"a": 1}
