from __future__ import annotations

from streams_recovery.core.ids import run_name
from streams_recovery.core.names import checked_name

MANUAL = "manual__2026-11-23T12:00:00.123456+00:00"


def test_runs_of_one_id_in_two_dags_have_two_names() -> None:
    restore, undo = run_name(MANUAL, "streams_restore_full"), run_name(MANUAL, "streams_undo")
    assert restore != undo
    assert restore.rpartition("-")[0] == undo.rpartition("-")[0] == "manual__2026-11-23T12_00_00.123456_00_00"
    assert restore == run_name(MANUAL, "streams_restore_full"), "a task that is tried again is of the same run"


def test_ids_that_differ_in_characters_that_no_key_has_have_two_names() -> None:
    assert run_name("a:b", "dag") != run_name("a+b", "dag")


def test_every_id_that_airflow_takes_gives_a_name_for_a_key() -> None:
    for run_id in ("x" * 250, "é / 日", MANUAL):
        name = run_name(run_id, "streams_restore_full")
        assert checked_name("run", f"append-{name}") == f"append-{name}"
    assert run_name("x" * 250, "dag") != run_name("x" * 249, "dag")
