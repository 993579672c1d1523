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
from tests.support.applications.key_answers import key_program, write_answers
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, small_application
from tests.support.applications.topic_records import produce

RESTORED = {"k0": "v0", "k1": "v1", "k2": "v2", "k3": "v3"}


@pytest.mark.deep
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
        [store] = query_stores(recovery, planned, patience=1)
        assert (store.sampled, store.equal) == (0, 0)

        [store] = query_stores(declared(small, kind="window", queryable=True).recovery, planned)
        assert (store.store, store.sampled) == ("totals", 0), "it is named, and was not asked"
        assert query_stores(declared(small, kind="key-value", queryable=False).recovery, planned) == ()
        restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_single_keys_are_asked_for_and_one_wrong_value_is_found(bootstrap: str, tmp_path: Path) -> None:
    by_key, whole = tmp_path / "keys.json", tmp_path / "whole.json"
    programs = {
        "query_keys": key_program(by_key),
        "query": [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(whole), "{store}"],
    }
    with small_application(bootstrap, tmp_path, programs=programs) as plain:
        small = declared(plain, kind="key-value", queryable=True)
        recovery, savepoint = small.recovery, publish(small)
        recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
        ticket = opened(recovery, asked(recovery, savepoint=savepoint))
        saved(recovery, ticket)
        loaded(recovery, ticket)
        planned = stored_plan(recovery, ticket)
        # What a whole store would say counts only where single keys cannot be asked for.
        whole.write_text(json.dumps({"k0": "wrong"}))
        write_answers(by_key, {"totals": RESTORED})
        [store] = query_stores(recovery, planned)
        assert (store.store, store.sampled, store.equal, store.different) == ("totals", 4, 4, ())

        for wrong in (RESTORED | {"k3": "v7"}, {key: value for key, value in RESTORED.items() if key != "k3"}):
            write_answers(by_key, {"totals": wrong})
            with pytest.raises(Damaged, match="answers otherwise than it was restored") as caught:
                query_stores(recovery, planned, patience=1)
            assert caught.value.facts == {"stores": ["totals: k3"]}

        write_answers(by_key, {"others": {}})
        with pytest.raises(Damaged) as caught:
            query_stores(recovery, planned, patience=1)
        assert caught.value.facts == {"stores": ["totals: k0, k1, k2"]}, "it was asked as a whole"
        whole.write_text(json.dumps(RESTORED))
        [store] = query_stores(recovery, planned, patience=1)
        assert store.equal == 4
        produce(recovery, small.changelog, 4)
        write_answers(by_key, {"totals": {}})
        [store] = query_stores(recovery, planned, patience=1)
        assert (store.equal, store.changed) == (0, 4), "what was written again since is not compared"
        restore.abandon(recovery, ticket)


def declared(small: Small, **store: object) -> Small:
    """The application with this said of its one store."""
    config = json.loads(small.recovery.config.model_dump_json()) | {"stores": {"totals": store}}
    return replace(small, recovery=replace(small.recovery, config=ApplicationConfig.model_validate(config)))
