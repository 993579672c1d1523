from __future__ import annotations

import pytest

from streams_recovery.engine.environment import driver_environment

SECRETS = [
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__API_AUTH__JWT_SECRET",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW_CONN_KAFKA_DEFAULT",
    "AIRFLOW_VAR_SOMETHING",
    "POSTGRES_PASSWORD",
    "S3_SECRET_KEY",
    "VAULT_TOKEN",
    "GITHUB_TOKEN",
    "_AIRFLOW_PROCESS_CONTEXT",
    "STREAMS_RECOVERY_CONFIG_DIR",
]
NEEDED = [
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "JDK_JAVA_OPTIONS", "LD_LIBRARY_PATH"),
    *("SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "PYSPARK_PYTHON", "PYTHONPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KRB5CCNAME", "AWS_PROFILE", "SSL_CERT_FILE", "https_proxy", "NO_PROXY"),
]


@pytest.mark.fault("F61")
def test_what_only_the_submitter_needs_stays_with_it() -> None:
    assert driver_environment(dict.fromkeys([*SECRETS, *NEEDED], "canary")) == dict.fromkeys(NEEDED, "canary")
