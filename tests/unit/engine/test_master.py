from __future__ import annotations

import os

import pytest

from streams_recovery.engine.master import is_local, local_cores, shuffle_partitions

REMOTE = ["spark://localhost:7077", "spark://local[2]:7077", "yarn", "k8s://https://cluster:6443", "", "local[x]", "locally"]


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[1]", 1), ("local[8]", 8), ("local[4,3]", 4), ("local-cluster[2,3,1024]", 6), ("local[*]", os.cpu_count())],
)
def test_cores_of_a_local_master(master: str, cores: int) -> None:
    assert is_local(master)
    assert local_cores(master) == cores
    assert shuffle_partitions(master) == 2 * cores


@pytest.mark.parametrize("master", REMOTE)
def test_what_runs_elsewhere(master: str) -> None:
    assert not is_local(master)
    assert local_cores(master) is None
    assert shuffle_partitions(master) == 32
