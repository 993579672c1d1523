""""""

from __future__ import annotations

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.core.errors import ConfigInvalid, NotFound

URIS = EnvironmentConnections(
    {
        "AIRFLOW_CONN_KAFKA_DEFAULT": "kafka://broker:9093",
        "AIRFLOW_CONN_AWS_DEFAULT": "aws://AKIA:secret@",
        "AIRFLOW_CONN_CLUSTER": "spark://spark-master:7077?deploy-mode=client",
        "AIRFLOW_CONN_HERE": "spark://local%5B2%5D?deploy-mode=cluster&queue=hunter3",
        "AIRFLOW_CONN_BROKEN": '{"password": "hunter2',
    }
)


def test_every_kind_of_connection_can_be_a_uri(caplog: pytest.LogCaptureFixture) -> None:
    assert URIS.kafka("kafka_default").bootstrap_servers == "broker:9093"
    key = URIS.storage("aws_default")
    assert key is not None
    assert key.access_key_id == "AKIA"
    assert URIS.spark_master("cluster") == "spark://spark-master:7077"
    assert caplog.records == []


def test_what_only_airflow_s_own_submit_understands_is_named(caplog: pytest.LogCaptureFixture) -> None:
    assert URIS.spark_master("here") == "local[2]"
    assert caplog.messages == ["connection here: ignored deploy-mode, queue: this software does not use them"]


def test_a_connection_that_cannot_be_read_or_is_not_there_names_its_variable() -> None:
    with pytest.raises(ConfigInvalid) as broken:
        URIS.kafka("broken")
    assert broken.value.facts["variable"] == "AIRFLOW_CONN_BROKEN"
    assert "hunter2" not in str(broken.value)
    with pytest.raises(NotFound) as missing:
        URIS.kafka("other")
    assert missing.value.facts["variable"] == "AIRFLOW_CONN_OTHER"
