"""Where an application belongs is what the newest entry says that counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.sites import (
    PRIMARY,
    Fence,
    SeenSite,
    SiteEntry,
    counting,
    require_nowhere_else,
    require_site,
    since,
    site_of,
)


def entry(site: str, *, arrived: bool = True, run: str = "r", fences: tuple[Fence, ...] = ()) -> SiteEntry:
    return SiteEntry(
        site=site, cluster_id="c", arrived=arrived, before=PRIMARY, run=run, at=1, requested_by="me", reason="why", fences=fences
    )


def seen(site: str, *, instances: tuple[str, ...] = (), members: tuple[str, ...] = (), unseen: tuple[str, ...] = ()) -> SeenSite:
    return SeenSite(site=site, cluster_id="", instances=instances, members=members, unseen=unseen)


def test_without_an_entry_it_belongs_to_the_primary_site() -> None:
    assert site_of(None) == PRIMARY
    assert counting([], lambda _: True) is None


@given(
    st.lists(st.tuples(st.sampled_from(["primary", "dr", "other"]), st.booleans(), st.sampled_from(["a", "b", "c"])), max_size=6),
    st.sets(st.sampled_from(["a", "b", "c"])),
)
def test_a_move_that_has_changed_nothing_yet_counts_for_nothing(log: list[tuple[str, bool, str]], begun: set[str]) -> None:
    entries = [entry(site, arrived=arrived, run=run) for site, arrived, run in log]
    expected = PRIMARY
    for one in entries:
        if one.arrived or one.run in begun:
            expected = one.site
    assert site_of(counting(reversed(entries), begun.__contains__)) == expected


def test_it_is_started_only_where_it_belongs() -> None:
    require_site(None, PRIMARY, application_id="orders")
    require_site(entry("dr"), "dr", application_id="orders")
    for one, here in ((None, "dr"), (entry("dr"), PRIMARY), (entry("dr", arrived=False), PRIMARY)):
        with pytest.raises(Refused, match=f"belongs to the site {site_of(one)}.* not started at {here}"):
            require_site(one, here, application_id="orders")


def test_it_is_not_started_while_it_runs_elsewhere_and_a_site_that_is_lost_holds_nothing_up() -> None:
    lost = seen("dr", unseen=("cluster: no broker answers",))
    assert not lost.in_use
    require_nowhere_else([lost, seen("third")], PRIMARY, application_id="orders")
    for running in (seen("dr", instances=("one (pid 3)",)), seen("dr", members=("group",), unseen=("instances: no answer",))):
        with pytest.raises(Refused, match=r"runs elsewhere \(dr: "):
            require_nowhere_else([seen("third"), running], PRIMARY, application_id="orders")


def test_a_fence_is_lifted_alone() -> None:
    fences = tuple(Fence(site=site, cluster_id="", since=1, run="r") for site in ("a", "b"))
    lifted = entry("dr", fences=fences).without("a", at=5)
    assert (lifted.fence_of("a"), lifted.fence_of("b"), lifted.at) == (None, fences[1], 5)


@given(
    st.lists(st.tuples(st.sampled_from(["go", "home"]), st.booleans()), max_size=4),
    st.lists(st.sampled_from(["lift", "fail"]), max_size=6),
)
def test_when_it_came_to_its_site_is_not_moved_by_what_is_entered_later(before: list[tuple[str, bool]], later: list[str]) -> None:
    log = [entry("dr", arrived=arrived, run=run) for run, arrived in before]
    came = replace(entry("dr", run="this one"), at=100)
    log += [replace(came, arrived=False, at=90), came]
    for number, what in enumerate(later):
        log.append(
            came.without("a", at=200 + number) if what == "lift" else replace(entry("third", arrived=False, run=f"failed {number}"), at=300)
        )
    assert since(reversed(log), came) == 100
    assert since(reversed(log), replace(came, arrived=False)) == 90
