"""What a person gave becomes the request of its strategy, each field from what its form asks for."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.config.loader import load_application
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy, parse
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.core.words import parse_moment
from streams_recovery.operations.restore.strategies import AsOfMoment, FromSavepoint, Rebuild, RestoreRequest, Undo
from streams_recovery.operations.restore.strategies.requested import RequestReader

NAME = "order-processing"
MOMENT = "2026-11-21T12:00:00Z"
# As a form sends them: what was left out is null.
FORM = {"application": NAME, "reason": None, "delete": None, "confirm": None, "offsets": None, "source": None, "groups": None}


def offsets(text: str) -> OffsetStrategy:
    """A strategy that names no file."""
    return parse(text, group="", read=lambda _: b"")


def asked(strategy: type[RestoreRequest], **params: Any) -> RestoreRequest:
    """What a run of the example application asks for."""
    return RequestReader(config=load_application(NAME), application=load_application, read=lambda _: b"").request(strategy, FORM | params)


@pytest.mark.parametrize(
    ("strategy", "params", "expected"),
    [
        (FromSavepoint, {"savepoint": "latest"}, FromSavepoint(reason="", offsets=EXACT)),
        (FromSavepoint, {}, FromSavepoint(reason="")),
        (
            FromSavepoint,
            {"savepoint": "one", "allow_damaged": True, "offsets": "shift:-3", "reason": "why", "compare_keys": True},
            FromSavepoint(reason="why", savepoint="one", allow_damaged=True, offsets=offsets("shift:-3"), compare_keys=True),
        ),
        (
            Undo,
            {"restore": "r7", "allow_ahead": True},
            Undo(reason="", restore_id="r7", allow_ahead=True, safeguards=Safeguards(replace=True)),
        ),
        (Rebuild, {"offsets": "earliest", "inputs_from": None}, Rebuild(reason="", offsets=offsets("earliest"))),
        (
            Rebuild,
            {"offsets": "earliest", "inputs_from": "latest", "outputs": "recreate", "accept_gap": True},
            Rebuild(reason="", offsets=offsets("earliest"), inputs_from="latest", outputs=OutputPolicy.RECREATE, accept_gap=True),
        ),
        (
            Rebuild,
            {"offsets": "offset:3", "input_topics": ["a", "b"], "internal_topics": ["c"]},
            Rebuild(reason="", offsets=offsets("offset:3"), input_topics=("a", "b"), internal_topics=("c",)),
        ),
        (
            AsOfMoment,
            {"as_of": MOMENT, "by": "position", "savepoint": "none", "in_place": True, "groups": ["a", "b"]},
            AsOfMoment(
                reason="",
                as_of=AsOf(moment=parse_moment(MOMENT), by=CutBy.POSITION),
                savepoint="none",
                in_place=True,
                groups=("a", "b"),
            ),
        ),
    ],
)
def test_each_field_has_the_param_of_its_name(strategy: type[RestoreRequest], params: dict[str, Any], expected: RestoreRequest) -> None:
    assert asked(strategy, **params) == expected


def test_what_is_given_up_is_in_the_safeguards() -> None:
    found = asked(FromSavepoint, replace=True, delete=["a", "b"], safety="skip", confirm="orders")
    assert found.safeguards == Safeguards(replace=True, delete=("a", "b"), safety=SafetyPolicy.SKIP, confirm="orders")
    with pytest.raises(ConfigInvalid):
        asked(FromSavepoint, delete=["../x"])


def test_the_source_is_named_by_its_configuration() -> None:
    found = asked(FromSavepoint, source=NAME)
    assert isinstance(found, FromSavepoint)
    assert found.source == load_application(NAME).application.id
