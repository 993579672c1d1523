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
from streams_recovery.operations.restore.query_check import Asked, ask_stores
from tests.integration.restoring import loaded, opened, saved
from tests.integration.small import Small, asked, produce, publish, small_application

RESTORED = {"k0": "v0", "k1": "v1", "k2": "v2", "k3": "v3"}


def test_answers_are_held_against_the_newest_keys_of_the_savepoint(bootstrap: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    query = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(answers), "{store}"]
    with small_application(bootstrap, tmp_path, programs={"query": query}) as plain:
        small = declared(plain, kind="key-value", queryable=True)
        bench, savepoint = small.bench, publish(small)
        bench.cluster.delete_topics([small.changelog.topic, small.tail.topic])
        ticket = opened(bench, asked(bench, savepoint=savepoint))
        saved(bench, ticket)
        loaded(bench, ticket)
        planned = stored_plan(bench, ticket)
        answers.write_text(json.dumps(RESTORED | {"k9": "new"}))
        [store] = ask_stores(bench, planned)
        assert (store.store, store.sampled, store.equal, store.different) == ("totals", 4, 4, ())
        assert restore.asked_before(bench, ticket) == ()
        note(bench, ticket, Phase.RECOVERED, result=bench.notes.write(ticket.restore_id, "asked", Asked(stores=(store,))))
        assert restore.asked_before(bench, ticket) == (store,), "for whoever resumes it"

        answers.write_text(json.dumps(RESTORED | {"k1": "v7"}))
        with pytest.raises(Damaged, match="answers otherwise than it was restored: totals: k1"):
            ask_stores(bench, planned, patience=1)
        # k0 and k1 were processed again: what they are now is not what they were.
        produce(bench, small.changelog, 2)
        [store] = ask_stores(bench, planned, patience=1)
        assert (store.equal, store.changed, store.different) == (2, 2, ())

        # More than is read of an answer tells nothing, and takes no memory.
        answers.write_text(json.dumps({"k1": "v7"}) + " " * (33 << 20))
        assert ask_stores(bench, planned, patience=1) == ()

        for declaration in ({"kind": "window", "queryable": True}, {"kind": "key-value", "queryable": False}):
            assert ask_stores(declared(small, **declaration).bench, planned) == ()
        restore.abandon(bench, ticket)


def declared(small: Small, **store: object) -> Small:
    """The application with this said of its one store."""
    config = json.loads(small.bench.config.model_dump_json()) | {"stores": {"totals": store}}
    return replace(small, bench=replace(small.bench, config=ApplicationConfig.model_validate(config)))
