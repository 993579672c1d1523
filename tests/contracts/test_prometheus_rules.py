"""The rules for Prometheus, in Prometheus' own words: promtool reads them and plays metrics to them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.programs.lacking import go_program
from tests.support.project import PROJECT

# It takes minutes to build.
pytestmark = pytest.mark.deep
RULES = PROJECT / "include" / "monitoring" / "prometheus-rules.yaml"
PLAYED = PROJECT / "tests" / "data" / "monitoring" / "prometheus-rules-test.yaml"


@pytest.fixture(scope="module")
def promtool() -> Path:
    return go_program("promtool", "github.com/prometheus/prometheus/cmd/promtool", "v0.316.0")


def said(promtool: Path, *arguments: object) -> str:
    done = subprocess.run([promtool, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules(promtool: Path) -> None:
    count = len(yaml.safe_load(RULES.read_text())["groups"][0]["rules"])
    assert f"{count} rules found" in said(promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES)


def test_each_rule_alerts_when_it_should_and_not_before(promtool: Path, tmp_path: Path) -> None:
    for file in (RULES, PLAYED):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in said(promtool, "test", "rules", tmp_path / PLAYED.name)


def test_a_rule_that_never_alerts_would_be_found(promtool: Path, tmp_path: Path) -> None:
    shutil.copy(PLAYED, tmp_path)
    (tmp_path / RULES.name).write_text(
        RULES.read_text().replace("> streams_recovery_newest_age_objective", "> 2 * streams_recovery_newest_age_objective")
    )
    with pytest.raises(AssertionError, match="StreamsRecoverySavepointTooOld"):
        said(promtool, "test", "rules", tmp_path / PLAYED.name)
