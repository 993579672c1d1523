"""A secret that a process knows is in nothing that it shows: no error, no warning of a library, no traceback, no record of a job that failed."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from streams_recovery.cli import screen
from streams_recovery.core import codec, masking
from streams_recovery.core.errors import BrokerUnavailable
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import JobFailure, JobOrder
from streams_recovery.core.masking import masked, remember_secrets, tell_secrets
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import SECRETS_FILE, driver_environment, secrets_file
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import access_key
from streams_recovery.storage.json_object import create_value
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import Seals, new_private_key
from tests.support.project import PROJECT

CANARY = "canary-of-masking"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's mask, which another test of this process may have brought in, is told nothing: it takes longer with each secret."""
    monkeypatch.setattr(masking, "_also", [])


@pytest.mark.usefixtures("alone")
def test_secrets_do_not_pile_up() -> None:
    for number in range(3_000):
        remember_secrets([f"token-of-minute-{number}"], renewed=True)
    assert masked("token-of-minute-2999") == "***"
    assert masked("token-of-minute-0") == "token-of-minute-0"


@pytest.mark.usefixtures("alone")
def test_tokens_that_are_renewed_push_out_no_password() -> None:
    KafkaConnection(bootstrap_servers="b:9092", properties={"sasl.password": "told once, at the start"})
    for number in range(3_000):
        remember_secrets([f"token-of-hour-{number}"], renewed=True)
    assert masked("the broker said: told once, at the start") == "the broker said: ***"


def test_a_worker_that_is_sent_a_connection_shows_no_secret_of_it_either() -> None:
    connection = KafkaConnection(bootstrap_servers="b:9092", properties={"sasl.password": "a broker's secret"})
    credentials = access_key("key", "a store's secret", session_token="a token's text")
    show = (
        "import pickle, sys; from streams_recovery.core.masking import masked; sent = pickle.loads(sys.stdin.buffer.read()); "
        "print(masked(\"a broker's secret, a store's secret, a token's text\"), repr(sent))"
    )
    sent = pickle.dumps((connection, credentials))
    said = subprocess.run([sys.executable, "-c", show], input=sent, capture_output=True, check=True).stdout.decode()
    assert said == f"***, ***, *** {(connection, credentials)!r}\n"
    assert pickle.loads(sent) == (connection, credentials)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot reach https://me:hush@vault:8200/v1", "cannot reach https://me:***@vault:8200/v1"),
        ("postgresql+psycopg2://airflow:p%40ss,:w@db/x and redis://:hush@r", "postgresql+psycopg2://airflow:***@db/x and redis://:***@r"),
        (
            "abfss://container@account.dfs/x, kafka://a:9092 me@here, s3://b/c:d@e",
            "abfss://container@account.dfs/x, kafka://a:9092 me@here, s3://b/c:d@e",
        ),
    ],
)
def test_the_password_of_an_address_is_shown_by_no_error(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert BrokerUnavailable(text, next_step=text).reason == shown


def test_what_nobody_expected_and_what_libraries_warn_of_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    remember_secrets([CANARY])
    try:
        int(CANARY)
    except ValueError:
        screen.say_unexpected()
    screen.say_warnings()
    logging.getLogger("a library").warning("it repeats %s", CANARY)
    said = capsys.readouterr().err
    assert (said.count("***"), CANARY in said) == (2, False)


def test_a_log_of_ours_has_none(caplog: pytest.LogCaptureFixture) -> None:
    remember_secrets([CANARY])
    logger("streams_recovery.test_masking").warning("the broker said %s", CANARY)
    assert caplog.messages == ["the broker said ***"]


def test_the_record_of_a_failed_job_has_none() -> None:
    remember_secrets([CANARY])
    failure = JobFailure.of(BrokerUnavailable(f"no token: {CANARY}", next_step="ask", url=f"https://idp/{CANARY}"))
    assert CANARY not in str(failure)
    assert failure.facts == {"url": "https://idp/***"}


def test_the_private_key_of_the_seals_is_one() -> None:
    private, public = new_private_key()
    Seals(SealKeys(public=(public,), private=private), lambda _: {})
    assert masked(f"{private} of {public}") == f"*** of {public}"


def test_another_mask_is_told_each_secret_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_also", [])
    told: list[str] = []
    tell_secrets(told.append)
    for _ in range(3):
        remember_secrets(["a new token of today", "short"], renewed=True)
    assert told == ["a new token of today"]


_JOB = """import sys
from spark_jobs.job import Job, run_job
from streams_recovery.core.jobs.spec import JobOrder

def work(tasks, spec, access):
    raise ValueError(f"a library repeats {access.cluster.properties['sasl.password']}")

sys.exit(run_job(Job(name="x", kind=JobOrder, work=work, alone=True), sys.argv[1:]))"""


def test_the_log_of_a_job_that_ends_with_an_unexpected_error_has_none(tmp_path: Path) -> None:
    location = StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))
    spec = JobOrder(spec=ArtifactRef.of("a/b.json", b"{}"), result_key="a/c.json")
    stored = ArtifactRef.of("a/spec.json", create_value(Repository(location, None), "a/spec.json", spec))
    words = ["--spec", codec.dumps(stored).decode(), "--result", "a/r.json", "--receipt", str(tmp_path / "r.json")]
    connection = KafkaConnection(bootstrap_servers="b:9092", properties={"sasl.password": CANARY})
    with secrets_file(connection, None, directory=tmp_path) as secrets:
        environment = {**driver_environment(), SECRETS_FILE: str(secrets), "PYTHONPATH": f"{PROJECT / 'plugins'}:{PROJECT}"}
        argv = [sys.executable, "-c", _JOB, "--without-spark", *words, "--repository", codec.dumps(location).decode()]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "ValueError: a library repeats ***" in done.stderr, CANARY in done.stderr) == (1, True, False), done.stderr
