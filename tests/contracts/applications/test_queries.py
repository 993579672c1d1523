"""Interactive queries over all instances."""

from __future__ import annotations

import json

import pytest

from streams_recovery.core.errors import (
    ApplicationNotReady,
    NotFound,
    PermanentError,
)
from tests.support.applications.states import started


def test_query_merges_instances(any_rig):
    one = any_rig(per_instance=[{"STORE": json.dumps({"a": 1, "": None})}, {"STORE": json.dumps({"b": {"x": 2}})}])
    assert started(one).query("totals") == {"a": 1, "": None, "b": {"x": 2}}


def test_query_waits_for_a_rebalance(rig):
    one = rig(environment={"BUSY": "3"}, per_instance=[{"STORE": '{"a": 1}'}])
    assert started(one).query("totals") == {"a": 1}


def test_a_rebalance_that_does_not_end_is_not_an_answer(rig):
    one = rig(environment={"BUSY": "10000"}, start_timeout=1)
    with pytest.raises(ApplicationNotReady, match="503"):
        started(one).query("totals")


def test_two_instances_that_contradict_each_other_are_damaged(rig):
    one = rig(start_timeout=1, per_instance=[{"STORE": '{"k": 1}'}, {"STORE": '{"k": 2}'}])
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


def test_no_running_instance_answers_nothing_rather_than_an_empty_store(rig):
    one = rig(start_timeout=1)
    with pytest.raises(ApplicationNotReady, match="no instance is running"):
        one.open().query("totals")
