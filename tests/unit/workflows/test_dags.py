"""Which DAGs an application has, by its configuration. ``tests/dags`` compares the same with what Airflow has parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.core.panels import GROUPS, DagGroup
from streams_recovery.workflows.dags import own_dags, removed_dags, shared_dags
from tests.support.examples.configurations import APPLICATION, DRILL, MINIMAL, REPROCESS, written

SWITCHED = {"archive", "mirror", "drill", "run", "reprocess"}
SHARED = {dag_id.removeprefix("streams_") for dag_id in shared_dags()}
OWN = "access: {own_dags: true}\n"
CLONE = "clone: {of: other}\n"
ARCHIVE = "archive: {enabled: true}\n"
OFF = "dags: {without: [ways back, trying things]}\n"
BACK = {dag_id.removeprefix("streams_") for dag_id, group in GROUPS.items() if group is DagGroup.WAYS_BACK}


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        (MINIMAL, SWITCHED | SHARED),
        (MINIMAL + OWN, SWITCHED | {"clone"}),
        (MINIMAL + OWN + CLONE, SWITCHED),
        (MINIMAL + CLONE, SWITCHED | SHARED),
        (MINIMAL + ARCHIVE, SWITCHED - {"archive"} | SHARED),
        (MINIMAL + ARCHIVE.replace("true", "true, dag: false"), SWITCHED | SHARED),
        (MINIMAL.replace("path: repository", "path: repository\n  mirror: {backend: s3, bucket: b}"), SWITCHED - {"mirror"} | SHARED),
        (APPLICATION + DRILL + REPROCESS, {"archive", "mirror", "run"} | SHARED),
        (APPLICATION + DRILL + "  enabled: false\n", SWITCHED | SHARED),
        (APPLICATION + REPROCESS + "  enabled: false\n", SWITCHED | SHARED),
        (MINIMAL + "run: {schedule: none}\n", SWITCHED - {"run"} | SHARED),
        (MINIMAL + 'compact: {schedule: "0 2 * * 0"}\n', SWITCHED | SHARED - {"compact"}),
    ],
)
def test_an_application_has_the_dags_that_its_configuration_asks_for(tmp_path: Path, text: str, removed: set[str]) -> None:
    config = load(written(tmp_path, text), {})
    found = removed_dags(config)
    assert found == {f"streams_{kind}_{config.name}" for kind in removed}
    assert found < set(own_dags(config.name))


@pytest.mark.parametrize("own", ["", OWN])
def test_an_application_has_no_dag_of_a_group_that_is_off_and_the_shared_ones_do_not_offer_it(tmp_path: Path, own: str) -> None:
    text = APPLICATION + DRILL + REPROCESS + own + OFF
    off = {*BACK, "drill", "clone", "reprocess"}
    on = SHARED - off if own else set()
    config = load(written(tmp_path, text), {})
    assert removed_dags(config) == {
        *(f"streams_{kind}_orders" for kind in {*off, *SHARED, "archive", "mirror", "run"} - on),
        *(f"streams_{kind}" for kind in off & SHARED),
    }


def test_each_dag_that_all_share_may_be_an_applications_own() -> None:
    own = own_dags("orders")
    assert len(set(own)) == len(own)
    assert {f"{dag_id}_orders" for dag_id in shared_dags()} < set(own)
