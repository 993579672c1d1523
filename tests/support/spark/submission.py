"""Jobs as they are submitted, to two executors of a cluster on this machine."""

from __future__ import annotations

from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import JobOrder
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import JobFiles, read_outcome, secrets_file, spark_call, submit_argv
from streams_recovery.engine.submitter import run_submit, tail
from streams_recovery.storage.objects import read_receipt
from streams_recovery.storage.repository import Repository

TWO_EXECUTORS = "local-cluster[2,1,1024]"
# What the tasks of one job may send to the driver; the records of one partition alone are more.
RESULT_LIMIT = 1 << 20

# A start-up file of every interpreter of the job, that tells the driver by its script.
HIDING = """
import importlib.abc
import sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        script = sys.argv[0] if getattr(sys, "argv", None) else ""
        if name.split(".")[0] == "confluent_kafka" and script.endswith(("backup.py", "restore.py", "verify.py")):
            raise ImportError(f"{name} is not for the driver")
        return None

sys.meta_path.insert(0, Hidden())
"""


def submitting(connection, location, package, directory, new_key):
    """Runs a job and returns its result. In the driver the Kafka client cannot be imported, and results must be small."""
    repository = Repository(location)
    (directory / "driver").mkdir()
    (directory / "driver" / "sitecustomize.py").write_text(HIDING)

    def run(job, spec, kind, *, master=TWO_EXECUTORS, spec_ref=None, prefix=()):
        if spec_ref is None:
            spec_ref = ArtifactRef.of(new_key(f"{job}-spec"), codec.dumps(spec))
            repository.create(spec_ref.key, codec.dumps(spec))
        result_key = new_key(f"{job}-result")
        with secrets_file(connection, None, directory=directory) as secrets:
            files = JobFiles(package=package, secrets=secrets, receipt=directory / "receipt.json")
            call = spark_call(job, order=JobOrder(spec=spec_ref, result_key=result_key), location=location, files=files, master=master)
            argv = submit_argv(call, master, extra={"spark.driver.maxResultSize": str(RESULT_LIMIT), "spark.executor.cores": "1"})
            environment = {**call.environment, "PYTHONPATH": str(directory / "driver")}
            files.receipt.unlink(missing_ok=True)
            run_submit([*prefix, *argv], environment, log=directory / "job.log", receipt=files.receipt)
            left = read_outcome(repository, read_receipt(files.receipt), result_key, kind, log_tail=tail(directory / "job.log"))
            return codec.loads(kind, left.checked(repository.get(left.key)), where=left.key)

    return run
