"""What is particular about Faust: names that do not begin with the id, a directory of its own, and what it cannot do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.application_kind import ApplicationKind, leader_topic, of_faust
from streams_recovery.core.kafka_types import Guarantee, QuiesceMode, TopicRole
from streams_recovery.core.names import internal_role

FAUST, STREAMS = ApplicationKind.FAUST.dialect, ApplicationKind.KAFKA_STREAMS.dialect
NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)


@given(app=NAMES, table=NAMES)
def test_a_changelog_begins_with_the_id(app: str, table: str) -> None:
    changelog = f"{app}-{table}-changelog"
    assert FAUST.role(changelog, app) is TopicRole.CHANGELOG
    assert FAUST.by_id(changelog, app)
    assert FAUST.role(f"x{changelog}", app) in (None, TopicRole.CHANGELOG if f"x{changelog}".startswith(f"{app}-") else None)


@given(app=NAMES, module=NAMES, topic=NAMES, key=NAMES)
def test_a_repartition_topic_has_any_name_that_ends_so(app: str, module: str, topic: str, key: str) -> None:
    name = f"{module}-{topic}-{key}-repartition"
    assert FAUST.role(name, app) is TopicRole.REPARTITION
    assert FAUST.by_id(name, app) == name.startswith(f"{app}-")
    assert not FAUST.only_its_own(name, app) or FAUST.by_id(name, app), "another one may have it unless it begins with the id"


@given(app=NAMES, topic=NAMES)
def test_nothing_changes_for_kafka_streams(app: str, topic: str) -> None:
    for name in (topic, f"{app}-{topic}-changelog", f"{app}-{topic}-repartition", f"{topic}-repartition"):
        assert STREAMS.role(name, app) is internal_role(name, app)
        assert STREAMS.by_id(name, app) == (internal_role(name, app) is not None)
        assert not STREAMS.made_again(name, app)


@given(source=NAMES, app=NAMES, name=NAMES, role=st.sampled_from([TopicRole.CHANGELOG, TopicRole.REPARTITION]))
def test_a_savepoint_names_no_topic_that_is_not_of_such_an_application(source: str, app: str, name: str, role: TopicRole) -> None:
    """Whatever a manifest says: what is made, and replaced, begins with the id or could be a repartition topic of Faust."""
    assert STREAMS.name_in(name, role, source, app).startswith(f"{app}-")
    found = FAUST.name_in(name, role, source, app)
    assert found.startswith(f"{app}-") or (role is TopicRole.REPARTITION and found == name and name.endswith("-repartition"))


def test_a_repartition_topic_keeps_its_name_and_a_changelog_gets_the_id() -> None:
    repartition = "words.count-in-Word.text-repartition"
    assert FAUST.name_in(repartition, TopicRole.REPARTITION, "one", "one") == repartition
    assert FAUST.name_in("one-counts-changelog", TopicRole.CHANGELOG, "one", "two") == "two-counts-changelog"


def test_the_topic_of_the_leader_is_in_no_savepoint_and_shows_what_an_application_is() -> None:
    assert FAUST.made_again("words-__assignor-__leader", "words")
    assert FAUST.role(leader_topic("words"), "words") is None
    assert of_faust(["words", "orders"], ["words-__assignor-__leader", "orders-totals-changelog"]) == {"words"}


@pytest.mark.parametrize(
    ("application_id", "parts", "beside"),
    [
        ("words", ("v1", "tables"), ()),
        ("words-v1", ("v1", "tables"), ()),
        ("words-v2", ("v2", "tables"), ("v1", "tables")),
        ("words-v17", ("v17", "tables"), ("v1", "tables")),
        ("words-v02", ("v1", "tables"), ()),
    ],
)
def test_the_directory_of_a_version(application_id: str, parts: tuple[str, ...], beside: tuple[str, ...]) -> None:
    found = FAUST.state_directory(application_id)
    assert (found.parts, found.beside) == (parts, beside)
    assert STREAMS.state_directory(application_id).parts == (application_id,)


def test_what_faust_is_not_held_in() -> None:
    assert set(QuiesceMode) - set(FAUST.refused) == {QuiesceMode.STOP}
    assert set(STREAMS.refused) == set()
    assert set(FAUST.guarantees) == {Guarantee.AT_LEAST_ONCE}
