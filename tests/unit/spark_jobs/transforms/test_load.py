from __future__ import annotations

import pytest

from spark_jobs.transforms.load import attempts_allowed


@pytest.mark.parametrize(
    ("master", "max_failures", "attempts"),
    [
        ("local", "4", "1"),
        ("local[2]", "4", "1"),
        ("local[*]", "1", "1"),
        ("local[2,4]", "1", "4"),
        ("local[*, 3]", "1", "3"),
        ("local[2,1]", "4", "1"),
        ("local-cluster[2,1,1024]", "1", "1"),
        ("local-cluster[2,1,1024]", "4", "4"),
        ("spark://host:7077", "4", "4"),
        ("spark://host:7077", "1", "1"),
    ],
)
def test_how_often_a_task_may_be_started(master, max_failures, attempts):
    assert attempts_allowed(master, max_failures) == attempts
