"""A git repository that owns pods: its tool is suspended while they are down, and is afterwards as it was. On a real control plane."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time

import pytest

from streams_recovery.application.kubernetes import application as port
from streams_recovery.application.kubernetes import suspending
from streams_recovery.core.errors import ApplicationNotReady, ManagedByAnother
from tests.support.applications.states import GONE, RUNNING, started, states
from tests.support.kubernetes.objects import define, may_see_owner, rights
from tests.support.kubernetes.pod_rig import RECORD, record, wait

pytestmark = pytest.mark.deep
ARGO = ("argoproj.io", "v1alpha1", "Application", "applications")
FLUX = ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")
LABELS = {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "{namespace}"}
TRACKED = {"argocd.argoproj.io/tracking-id": "{namespace}_shop:apps/StatefulSet:{own}/counting"}
HEALS = {"automated": {"prune": True, "selfHeal": True}, "syncOptions": ["CreateNamespace=true"]}
# The object, how the workload says whose it is, how it is at work, and how a person has suspended it.
OWNERS = {
    "argo": (ARGO, {"annotations": TRACKED}, {"syncPolicy": HEALS}, {"syncPolicy": {"automated": None}}),
    "flux": (FLUX, {"labels": LABELS}, {"interval": "5m"}, {"suspend": True}),
    "flux that was resumed once": (FLUX, {"labels": LABELS}, {"interval": "5m", "suspend": False}, {"suspend": True}),
}
REFRESH = "argocd.argoproj.io/refresh"
MARK = "kafka-streams-recovery/suspended-for."
each_owner = pytest.mark.parametrize("which", OWNERS)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Most of these tests have no controller that does a refresh."""
    monkeypatch.setattr(suspending, "_REFRESH_SECONDS", 2.0)


class Owned:
    """The workloads of rigs that an object of a tool owns, and what the tool does of them in a thread: unless it is suspended, it brings back what Git says. A
    refresh that it began before goes on by what it had read.
    """

    def __init__(self, one, which, *, metadata=None):
        (self.group, version, kind, self.plural), marks, self.spec, self.suspended = OWNERS[which]
        self.one, self._over, self._marks, self._rigs = one, threading.Event(), marks, [one]
        self.slow = 0.0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.path = f"{define(one.api, one.namespace, self.group, version, kind, self.plural)}/shop"
        body = {"apiVersion": f"{self.group}/{version}", "kind": kind, "metadata": {"name": "shop", **(metadata or {})}, "spec": self.spec}
        one.api.post(self.path.removesuffix("/shop"), body)
        self.named = f"{'Argo CD' if kind == 'Application' else 'Flux'} {kind} {one.namespace}/shop"
        self._mark(one)

    def owns(self, other):
        self._rigs.append(other)
        self._mark(other)
        return self

    def _mark(self, rig):
        words = {"namespace": self.one.namespace, "own": rig.namespace}
        filled = {part: {key: text.format(**words) for key, text in texts.items()} for part, texts in self._marks.items()}
        rig.api.patch(rig.own(), {"metadata": filled})

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(timeout=30)

    @property
    def now(self):
        return self.one.api.get(self.path)["spec"]

    def change(self, spec):
        self.one.api.patch(self.path, {"spec": spec})

    def _work(self):
        while not self._over.wait(0.2):
            found = self.one.api.get(self.path)
            spec, asked = found["spec"], REFRESH in found["metadata"].get("annotations", {})
            off = spec.get("suspend") is True or (self.plural == "applications" and not (spec.get("syncPolicy") or {}).get("automated"))
            time.sleep(self.slow)
            for rig in self._rigs:
                if not off and rig.api.get(rig.own())["spec"]["replicas"] != 2:
                    rig.api.patch(rig.own(), {"spec": {"replicas": 2}}, manager="git")
            if asked:
                self.one.api.patch(self.path, {"metadata": {"annotations": {REFRESH: None}}})

    @property
    def marks(self):
        """The namespaces of the workloads that it is suspended for."""
        annotations = self.one.api.get(self.path)["metadata"].get("annotations") or {}
        return sorted(name.removeprefix(MARK).partition(".")[0] for name in annotations if name.startswith(MARK))


@pytest.mark.fault("F116")
@each_owner
def test_it_is_suspended_while_the_application_is_down_and_given_back_to_the_letter(pods, which):
    one = pods()
    application = started(one)
    with Owned(one, which) as owned:
        assert application.preflight(stops=True) == ()
        assert application.stop(timeout=20).clean
        # It looks five times a second.
        time.sleep(2)
        assert states(application) == [GONE, GONE]
        assert [noted["owner"]["name"] for noted in record(one)["suspended"]] == ["shop"]
        assert {f"{owned.named} is suspended for it" in status.detail for status in application.status()} == {True}
        application.start()
        assert owned.now == owned.spec
        assert record(one) is None
        one.await_up()
        one.scale(1)
        wait(lambda: one.api.get(one.own())["spec"]["replicas"] == 2)


@pytest.mark.fault("F116")
@each_owner
def test_one_that_owns_two_is_given_back_when_neither_is_down(pods, which):
    one, other = pods(), pods()
    first, second = started(one), started(other)
    with Owned(one, which).owns(other) as owned:
        assert first.stop(timeout=20).clean
        assert second.stop(timeout=20).clean
        assert owned.marks == sorted([one.namespace, other.namespace])
        first.start()
        one.await_up()
        # It looks five times a second.
        time.sleep(2)
        assert states(second) == [GONE, GONE]
        assert owned.marks == [other.namespace]
        assert (record(one), len(record(other)["suspended"])) == (None, 1)
        second.start()
        assert (owned.now, owned.marks) == (owned.spec, [])
        other.await_up()
        other.scale(1)
        wait(lambda: other.api.get(other.own())["spec"]["replicas"] == 2)


@each_owner
def test_a_record_that_is_left_ends_no_suspension_of_a_person(pods, which):
    one = pods()
    application = started(one)
    with Owned(one, which) as owned:
        assert application.stop(timeout=20).clean
        # A person takes it back by hand, and the record is left. For Flux the API server names who has written the field.
        unmarked = {"annotations": {f"{MARK}{one.namespace}.statefulset.counting": None}}
        one.api.patch(owned.path, {"metadata": unmarked, "spec": owned.spec} if which == "argo" else {"spec": {"suspend": False}})
        one.await_up()
        owned.change(owned.suspended)
        before = owned.now
        assert record(one)["suspended"]
        assert application.stop(timeout=20).clean
        assert not record(one)["suspended"]
        application.start()
        assert owned.now == before


def test_a_refresh_that_began_before_the_suspension_is_waited_for(pods, monkeypatch):
    monkeypatch.setattr(suspending, "_REFRESH_SECONDS", 60.0)
    one = pods()
    application = started(one)
    owned = Owned(one, "argo")
    owned.slow = 3.0
    with owned:
        # Somebody has asked for a refresh already, so that the one which began before takes the annotation away too.
        one.api.patch(owned.path, {"metadata": {"annotations": {REFRESH: "normal"}}})
        time.sleep(1)
        assert application.stop(timeout=30).clean
        time.sleep(4)
        assert states(application) == [GONE, GONE]


def test_without_a_controller_a_stop_goes_on_and_says_so(pods, caplog):
    one = pods()
    application = started(one)
    owned = Owned(one, "argo")
    with caplog.at_level("WARNING"):
        assert application.stop(timeout=20).clean
    assert f"{owned.named} was asked to refresh" in caplog.text


@each_owner
def test_one_that_a_person_has_suspended_stays_suspended(pods, which):
    one = pods()
    application = started(one)
    with Owned(one, which) as owned:
        owned.change(owned.suspended)
        before = owned.now
        assert application.preflight(stops=True) == ()
        assert application.stop(timeout=20).clean
        assert owned.now == before
        application.start()
        assert owned.now == before


@pytest.mark.fault("F116")
@each_owner
def test_it_is_given_back_after_the_run_was_killed_in_its_stop(pods, which):
    one = pods(environment={"ON_TERM": "ignore"}, grace=30)
    started(one)
    with Owned(one, which) as owned:
        stopping = multiprocessing.get_context("fork").Process(target=lambda: one.open().stop(timeout=30))
        stopping.start()
        wait(lambda: one.api.find(one.path("configmaps", RECORD)) and (record(one) or {}).get("suspended") and owned.now != owned.spec)
        os.kill(stopping.pid, signal.SIGKILL)
        stopping.join()
        application = one.open()
        application.start()
        assert owned.now == owned.spec
        assert record(one) is None


def test_one_that_somebody_has_changed_meanwhile_is_left_as_it_is(pods):
    one = pods()
    application = started(one)
    owned = Owned(one, "argo")
    assert application.stop(timeout=20).clean
    owned.change({"syncPolicy": {"automated": {"selfHeal": False}}})
    application.start()
    assert owned.now["syncPolicy"]["automated"] == {"selfHeal": False}


def test_one_that_is_gone_keeps_nobody_from_the_start(pods):
    one = pods()
    application = started(one)
    owned = Owned(one, "flux")
    assert application.stop(timeout=20).clean
    one.api.delete(owned.path)
    application.start()
    assert record(one) is None


def test_a_record_that_somebody_has_made_up_changes_no_other_object(pods):
    one = pods()
    application = started(one)
    owned = Owned(one, "argo")
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "other"}, "spec": {"project": "x"}}
    one.api.post(owned.path.removesuffix("/shop"), body)
    assert application.stop(timeout=20).clean
    noted = record(one)
    noted["suspended"].append({**noted["suspended"][0], "owner": {**noted["suspended"][0]["owner"], "name": "other"}})
    one.api.patch(one.path("configmaps", RECORD), {"data": {"stop": json.dumps(noted)}})
    application.start()
    assert one.api.get(f"{owned.path.removesuffix('shop')}other")["spec"] == body["spec"]
    assert owned.now == owned.spec


def test_what_it_had_begun_is_waited_for_and_a_start_gives_it_back(pods, monkeypatch):
    one = pods()
    application = started(one)
    owned = Owned(one, "flux")
    one.api.patch(owned.path, {"status": {"conditions": [{"type": "Reconciling", "status": "True"}]}})
    monkeypatch.setattr(port, "_AUTOSCALER_SECONDS", 2.0)
    with pytest.raises(ApplicationNotReady, match=f"{owned.named} is suspended, and has been at work for 2 s"):
        application.stop(timeout=20)
    assert (states(application), owned.now["suspend"]) == ([RUNNING, RUNNING], True)
    application.start()
    assert owned.now == owned.spec


@pytest.mark.fault("F116")
@each_owner
@pytest.mark.parametrize("verbs", [[], ["get"]], ids=["not seen", "only seen"])
def test_without_the_right_it_is_refused_with_the_commands(pods, which, verbs):
    one = pods()
    owned = Owned(one, which)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one, "KEDA"))
    if verbs:
        may_see_owner(one, owned.group, owned.plural, "shop", verbs)
    application = started(one)
    with pytest.raises(ManagedByAnother, match=owned.named) as caught:
        application.stop(timeout=20)
    assert [("suspend" in one or "none" in one, "resume" in one or "automated" in one) for one in caught.value.commands] == [
        (True, False),
        (False, True),
    ]
    assert states(application) == [RUNNING, RUNNING]
    assert owned.now == owned.spec
    (found,) = application.preflight(stops=True)
    assert (found.kind, found.next_step) == ("managed-elsewhere", caught.value.commands[0])
    owned.change(owned.suspended)
    if verbs:
        assert application.preflight(stops=True) == ()
        assert application.stop(timeout=20).clean


@each_owner
def test_the_rights_of_the_manifest_are_enough(pods, which):
    one = pods()
    owned = Owned(one, which)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one, "KEDA"))
    may_see_owner(one, owned.group, owned.plural, "shop", ["get", "patch"])
    application = started(one)
    assert application.preflight(stops=True) == ()
    assert application.stop(timeout=20).clean
    application.start()
    assert owned.now == owned.spec


def test_an_application_that_another_one_makes_is_suspended_only_if_that_leaves_it_alone(pods):
    one = pods()
    tracked = {"argocd.argoproj.io/tracking-id": f"{one.namespace}_root:argoproj.io/Application:{one.namespace}/shop"}
    application = started(one)
    owned = Owned(one, "argo", metadata={"annotations": tracked})
    root = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "root"}, "spec": {"syncPolicy": HEALS}}
    one.api.post(owned.path.removesuffix("/shop"), root)
    with pytest.raises(ManagedByAnother, match=rf"Argo CD Application {one.namespace}/root makes it .*ignoreDifferences"):
        application.stop(timeout=20)
    assert owned.now == owned.spec
    rule = {"group": "argoproj.io", "kind": "Application", "jsonPointers": ["/spec/syncPolicy"]}
    policy = {**HEALS, "syncOptions": ["RespectIgnoreDifferences=true"]}
    one.api.patch(f"{owned.path.removesuffix('shop')}root", {"spec": {"ignoreDifferences": [rule], "syncPolicy": policy}})
    assert application.stop(timeout=20).clean
    application.start()
    assert owned.now == owned.spec


def test_a_suspension_that_git_would_end_is_not_made(pods):
    one = pods()
    application = started(one)
    owned = Owned(one, "flux")
    body = {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "spec": {"suspend": False}}
    one.api.patch(owned.path, body, kind="apply-patch", manager="kustomize-controller")
    with pytest.raises(ManagedByAnother, match=r"kustomize-controller applies spec\.suspend of it from Git"):
        application.stop(timeout=20)
    assert states(application) == [RUNNING, RUNNING]
