"""A second application, which restores bring to a moment of the first one's past."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.applications.small import Small, configured


@contextmanager
def second_application(small: Small) -> Iterator[RecoveryContext]:
    """With copies of the input of ``small``. Its topics are gone at the end."""
    recovery, name, copy = small.recovery, f"{small.recovery.application_id}-past", f"{small.input.topic}.past"
    config = configured(
        recovery,
        application={"id": name},
        topics={"inputs": [copy], "outputs": [f"{name}.out"]},
        restore={
            "topic_map": {small.input.topic: copy, small.output.topic: f"{name}.out"},
            "catch_up_timeout_seconds": 1,
        },
    )
    kafka = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": recovery.connection.bootstrap_servers}}
        )
    }
    with open_context(config, EnvironmentConnections(kafka)) as other:
        yield other
        mine = [topic for topic in other.cluster.topic_names() if topic.startswith(name) or topic == copy]
        other.cluster.delete_topics(mine)
