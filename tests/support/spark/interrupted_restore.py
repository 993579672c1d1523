"""An application whose state is lost, and restores of it in the session of the tests."""

from __future__ import annotations

import uuid

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.operations import restore
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.spark.small_app import small_request

PARTITIONS, ROWS = 2, 500


class Case:
    """An application whose changelog and group are lost, and its savepoint."""

    def __init__(self, submitter, app, recovery):
        self.submitter, self.app, self.recovery = submitter, app, recovery
        self.said = []
        self.loads = {}

    def job(self, name, plan, _ticket):
        """In the session of the tests, without keeping the lock."""
        recovery = self.recovery
        if plan.spec is None:
            return None
        return self.submitter.submit(
            SparkJob(
                name=name,
                spec=plan.spec,
                result_key=plan.result_key,
                repository=recovery.repository,
                connection=recovery.connection,
                credentials=None,
            )
        )

    def runner(self):
        return Runner(recovery=self.recovery, submitter=self.submitter, say=self.said.append)

    def savepoint(self):
        request = SavepointRequest(run_id="s", requested_by="test", reason="", mode=None)
        runs.backup(self.runner(), request)
        self.said.clear()

    def opened(self):
        request = small_request()
        planned = restore.plan(self.recovery, request)
        return restore.open_restore(self.recovery, request, run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)

    def created(self):
        ticket = self.opened()
        restore.stop(self.recovery, ticket)
        restore.keep_state(self.recovery, ticket, restore.save_state(self.recovery, ticket))
        restore.prepare(self.recovery, ticket)
        return ticket

    def load(self, ticket):
        summary = restore.check_load(self.recovery, ticket, self.job("restore", restore.plan_load(self.recovery, ticket), ticket))
        self.loads[ticket.restore_id] = summary.result
        return summary

    def verify(self, ticket):
        loaded = self.loads[ticket.restore_id]
        compared = self.job("verify", restore.plan_verify(self.recovery, ticket, loaded), ticket)
        return restore.check_verify(self.recovery, ticket, loaded, compared)

    def topic_id(self):
        return self.recovery.cluster.describe_topics([self.app.changelog])[self.app.changelog].topic_id

    def saved_rows(self, partition):
        return self.rows[partition]
