from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.engine.spark_home import SPARK_HOME, find_spark_home, installed_spark


def home_with(directory: Path, jar: str) -> Path:
    for name in ("bin", "jars"):
        (directory / name).mkdir()
    (directory / "bin" / "spark-submit").touch()
    (directory / "jars" / jar).touch()
    return directory


def test_it_is_the_packages_when_nothing_else_is_said() -> None:
    assert find_spark_home({}) == find_spark_home({SPARK_HOME: ""}) == installed_spark()
    assert (installed_spark() / "bin" / "spark-submit").is_file()


def test_another_of_the_same_version_is_taken(tmp_path: Path) -> None:
    (jar,) = (installed_spark() / "jars").glob("spark-core_*.jar")
    assert find_spark_home({SPARK_HOME: str(home_with(tmp_path, jar.name))}) == tmp_path


@pytest.mark.parametrize("jar", ["spark-core_2.13-3.5.1.jar", "other.jar"])
def test_one_of_another_version_is_refused_by_name(tmp_path: Path, jar: str) -> None:
    with pytest.raises(ConfigInvalid, match=str(tmp_path)):
        find_spark_home({SPARK_HOME: str(home_with(tmp_path, jar))})


def test_a_directory_without_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no Spark"):
        find_spark_home({SPARK_HOME: str(tmp_path / "none")})
