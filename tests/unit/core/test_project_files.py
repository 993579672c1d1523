from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.project_files import CARRIED, project_files
from tests.support.project import PROJECT


def test_in_a_checkout_the_files_are_at_the_top_of_the_project() -> None:
    found = project_files({})
    assert found.root == PROJECT
    assert (found.dags / "streams_backup.py").is_file()
    assert (found.jobs / "backup.py").is_file()
    assert (found.configs / "reference.yaml.example").is_file()


def test_the_environment_names_another_project_that_must_hold_the_jobs(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        project_files({"STREAMS_RECOVERY_HOME": str(tmp_path)})
    assert refused.value.facts["path"] == str(tmp_path)
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "backup.py").touch()
    assert project_files({"STREAMS_RECOVERY_HOME": str(tmp_path)}).root == tmp_path


def test_every_folder_that_is_asked_for_is_one_that_the_wheel_carries() -> None:
    found = project_files({})
    folders = {path.relative_to(found.root).parts[0] for path in (found.dags, found.jobs, found.configs)}
    assert folders == set(CARRIED)
