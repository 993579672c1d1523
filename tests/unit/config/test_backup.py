"""The ``storage`` section and the location that is made of it.

Who may restore an application, and what of that is no configuration.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from streams_recovery.config.backup import DagRight, Storage
from streams_recovery.config.loader import load, load_all
from tests.support.examples.configurations import MINIMAL, refused, written

_CREDENTIALS = {"connection", "seal"}


def test_a_location_has_every_key_but_the_way_to_the_credentials() -> None:
    section = Storage(
        backend="s3",
        bucket="b",
        prefix="orders",
        region="eu-west-1",
        endpoint="http://127.0.0.1:9000",
        path_style=True,
        allow_http=True,
        sse="aws:kms",
        kms_key_id="k",
    )
    assert asdict(section.location) == {name: value for name, value in section if name not in _CREDENTIALS}


def test_without_the_section_an_application_has_what_all_have(tmp_path: Path) -> None:
    access = load(written(tmp_path, MINIMAL), {}).access
    assert (access.own_dags, access.roles, access.sources, access.approval.restricts) == (False, None, (), False)


def test_rights_are_read(tmp_path: Path) -> None:
    text = f"{MINIMAL}access: {{own_dags: true, roles: {{payments-team: run, support: view}}, approvers: [anna], approvers_exclude_trigger: true}}\n"
    access = load(written(tmp_path, text), {}).access
    assert access.roles == {"payments-team": DagRight.RUN, "support": DagRight.VIEW}
    assert (access.approval.approvers, access.approval.exclude_trigger) == (("anna",), True)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("roles: {support: view}", "write own_dags: true"),
        ("roles: {}", "write own_dags: true"),
        ("sources: [other]", "write own_dags: true"),
        ("own_dags: true, roles: {support: admin}", "access.roles.support"),
        ("approvers: ['']", "access.approvers.0"),
        ("approver: [anna]", "did you mean approvers?"),
    ],
)
def test_what_would_give_no_right_is_refused(tmp_path: Path, section: str, said: str) -> None:
    assert said in refused(tmp_path, f"{MINIMAL}access: {{{section}}}\n")


def test_a_source_that_is_not_configured_is_named(tmp_path: Path) -> None:
    written(tmp_path, f"{MINIMAL}access: {{own_dags: true, sources: [orders, billing]}}\n")
    found = load_all(tmp_path, {})
    assert list(found.applications) == []
    assert "access.sources of orders: billing is not configured; known: orders" in str(found.broken["orders"])
