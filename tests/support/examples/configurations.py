"""Configurations of an application: the least there may be, and one with a drill."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.core.errors import ConfigInvalid

MINIMAL = """\
version: 1
application:
  id: orders
  guarantee: exactly_once_v2
topics:
  inputs: [orders-in]
storage:
  backend: filesystem
  path: repository
backup:
  survive_cluster_loss: true
runs:
  kind: process
  process:
    directory: run
    command: [java, Orders.java]
    instances:
      - {name: one, url: "http://127.0.0.1:18081", state_directory: state/1}
"""


APPLICATION = """\
version: 1
application: {id: orders, guarantee: exactly_once_v2}
topics: {inputs: [orders-in], outputs: [totals, late]}
storage: {backend: filesystem, path: repository}
backup: {survive_cluster_loss: false}
restore: {consumer_group_strategy: latest, topic_map: {a: b}}
groups: {include: ["billing-*"]}
runs:
  kind: process
  process:
    directory: run
    command: [java, Orders.java]
    environment: {ID: orders, TOTALS: totals, LATE: late, HEAP: 1g}
    instances:
      - {name: one, url: "http://127.0.0.1:18081", state_directory: state/1}
      - {name: two, url: "http://127.0.0.1:18082", state_directory: state/2}
"""


DRILL = """\
drill:
  application_id: drill-orders
  topic_map: {totals: drill-totals, late: drill-late}
  process:
    directory: drill/run
    environment: {ID: drill-orders, TOTALS: drill-totals, LATE: drill-late}
    instances: [{name: one, url: "http://127.0.0.1:18083", state_directory: drill/state}]
"""


REPROCESS = """\
reprocess:
  schedule: "0 * * * *"
  parallel: 2
  application_id: again-orders
  overlap: PT10M
  tables: [orders-in]
  topic_map: {orders-in: again.in, totals: again.totals, late: again.late}
  process:
    directory: again/run
    command: [java, "-Dinput=again.in-{interval}", Orders.java]
    environment: {ID: "again-orders-{interval}", TOTALS: "again.totals-{interval}", LATE: "again.late-{interval}", SLOT: "{slot}"}
    slots:
      - instances: [{name: again-1, url: "http://127.0.0.1:18084", state_directory: again/1}]
      - instances: [{name: again-2, url: "http://127.0.0.1:18085", state_directory: again/2}]
"""


def written(directory: Path, text: str, name: str = "orders.yaml") -> Path:
    """The file of a configuration."""
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(directory: Path, text: str, environment: dict[str, str] | None = None) -> str:
    """Why a configuration is not taken; it says what to do next."""
    with pytest.raises(ConfigInvalid) as caught:
        load(written(directory, text), environment or {})
    assert "Next: " in str(caught.value)
    return str(caught.value)
