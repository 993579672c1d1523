"""Groups of DAGs: which there are, and when the DAG that all applications share is there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.panels import GROUPS, DagGroup, Panel, is_shared_dag_drawn
from streams_recovery.workflows.dags import own_dags, shared_dags

SWITCHED_OFF = st.lists(st.sets(st.sampled_from(DagGroup)), max_size=5)


def test_every_dag_is_of_one_group_which_is_called_as_a_panel() -> None:
    own = {dag_id.removesuffix("_orders") for dag_id in own_dags("orders")}
    assert set(GROUPS) == {*own, *shared_dags(), "streams_monitor"}
    assert set(GROUPS.values()) == set(DagGroup)
    assert {*map(str, DagGroup)} == {panel.lower() for panel in Panel if panel is not Panel.FIRST}


@given(dag_id=st.sampled_from(sorted(GROUPS)), off=SWITCHED_OFF)
def test_a_shared_dag_is_gone_when_nobody_is_left_who_wants_it(dag_id: str, off: list[set[DagGroup]]) -> None:
    wanted = [groups for groups in off if GROUPS[dag_id] not in groups]
    assert is_shared_dag_drawn(dag_id, off) is (bool(wanted) or not off)
    assert is_shared_dag_drawn(dag_id, [*off, set()]), "one is enough"
