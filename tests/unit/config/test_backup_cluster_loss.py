"""Whether savepoints are to survive the loss of the cluster is said in every configuration, and decides which records are archived."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import Profile, TopicRole
from tests.support.examples.configurations import MINIMAL

TOPICS = "inputs: [orders-in, late-in]\n  outputs: [out]\n  globals: [rates]"
BACKUP = "backup:\n  survive_cluster_loss: true\n"


def configured(directory: Path, *, survive: object = True, profile: str = "full", topics: str = "") -> ApplicationConfig:
    text = MINIMAL.replace("inputs: [orders-in]", f"{TOPICS}\n  {topics}")
    assert BACKUP in text
    path = directory / "orders.yaml"
    path.write_text(text.replace(BACKUP, f"backup:\n  survive_cluster_loss: {survive}\n  profile: {profile}\n"))
    return load(path, {})


def archived(config: ApplicationConfig) -> set[str]:
    declared = config.declared(Profile.FULL)
    return {name for name, role in config.topics.declared.items() if declared.archives(name, role)}


@pytest.mark.parametrize("section", ["", "backup: {}\n", "backup: {schedule: none}\n"])
def test_nobody_forgets_to_say_it(tmp_path: Path, section: str) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(MINIMAL.replace(BACKUP, section))
    with pytest.raises(ConfigInvalid, match=r"backup(\.survive_cluster_loss)? is missing") as error:
        load(path, {})
    assert error.value.facts["file"] == str(path)
    assert error.value.facts["lines"] != [None]
    for word in ("survive_cluster_loss", "true", "records of inputs and globals", "false"):
        assert word in str(error.value)


def test_what_is_read_is_archived_where_savepoints_are_to_survive(tmp_path: Path) -> None:
    assert archived(configured(tmp_path)) == {"orders-in", "late-in", "rates"}
    assert archived(configured(tmp_path, topics="include: [out]")) == {"orders-in", "late-in", "rates", "out"}
    assert archived(configured(tmp_path, survive=False)) == set()
    assert archived(configured(tmp_path, survive=False, topics="include: ['*-in', out]\n  exclude: [late-in]")) == {"orders-in", "out"}
    found = configured(tmp_path).declared(Profile.FULL)
    assert found.archives("nobody-declared", TopicRole.INPUT), "an input that only its committed offsets show"


def test_what_would_be_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"topics\.exclude takes late-in, rates out"):
        configured(tmp_path, topics="exclude: [late-*, rates, out]")
    assert archived(configured(tmp_path, topics="include: ['*']\n  exclude: [out]")) == {"orders-in", "late-in", "rates"}


def test_a_minimal_savepoint_without_its_inputs_could_never_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="orders-in, late-in are not archived"):
        configured(tmp_path, survive=False, profile="minimal")
    with pytest.raises(ConfigInvalid, match="records of late-in are not archived"):
        configured(tmp_path, survive=False, profile="minimal", topics="include: ['*']\n  exclude: [late-in]")
    configured(tmp_path, survive=False, profile="minimal", topics="include: ['*-in']")
    configured(tmp_path, survive=True, profile="minimal")
