"""A restored application is asked for what it was restored with. Programs answer for it; topics, files and group are real."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import restore
from streams_recovery.operations.restore.open import note, stored_plan
from streams_recovery.operations.restore.query_check import Queried, queried_before, query_stores
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, small_application
from tests.support.applications.topic_records import produce

RESTORED = {"k0": "v0", "k1": "v1", "k2": "v2", "k3": "v3"}


def test_answers_are_held_against_the_newest_keys_of_the_savepoint(bootstrap: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    query = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(answers), "{store}"]
    with small_application(bootstrap, tmp_path, programs={"query": query}) as plain:
        small = declared(plain, kind="key-value", queryable=True)
        recovery, savepoint = small.recovery, publish(small)
        recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
        ticket = opened(recovery, asked(recovery, savepoint=savepoint))
        saved(recovery, ticket)
        loaded(recovery, ticket)
        planned = stored_plan(recovery, ticket)
        answers.write_text(json.dumps(RESTORED | {"k9": "new"}))
        [store] = query_stores(recovery, planned)
        assert (store.store, store.sampled, store.equal, store.different) == ("totals", 4, 4, ())
        assert queried_before(recovery, ticket) == ()
        note(recovery, ticket, Phase.RECOVERED, result=recovery.artifacts.write(ticket.restore_id, "queried", Queried(stores=(store,))))
        assert queried_before(recovery, ticket) == (store,), "for whoever resumes it"

        answers.write_text(json.dumps(RESTORED | {"k1": "v7"}))
        with pytest.raises(Damaged) as caught:
            query_stores(recovery, planned, patience=1)
        assert caught.value.facts == {"stores": ["totals: k1"]}

        answers.write_text("{}")
        with pytest.raises(Damaged) as caught:
            query_stores(recovery, planned, patience=1)
        assert caught.value.facts == {"stores": ["totals: k0, k1, k2"]}, "an empty store is not what was restored"

        answers.write_text(json.dumps(RESTORED | {"k1": "v7"}))
        # k0 and k1 were processed again: what they are now is not what they were.
        produce(recovery, small.changelog, 2)
        [store] = query_stores(recovery, planned, patience=1)
        assert (store.equal, store.changed, store.different) == (2, 2, ())

        # More than is read of an answer tells nothing, and takes no memory.
        answers.write_text(json.dumps({"k1": "v7"}) + " " * (33 << 20))
        assert query_stores(recovery, planned, patience=1) == ()

        for declaration in ({"kind": "window", "queryable": True}, {"kind": "key-value", "queryable": False}):
            assert query_stores(declared(small, **declaration).recovery, planned) == ()
        restore.abandon(recovery, ticket)


def declared(small: Small, **store: object) -> Small:
    """The application with this said of its one store."""
    config = json.loads(small.recovery.config.model_dump_json()) | {"stores": {"totals": store}}
    return replace(small, recovery=replace(small.recovery, config=ApplicationConfig.model_validate(config)))
