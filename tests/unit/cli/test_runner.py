"""How the steps of a workflow are taken from a terminal: in their order, each as often as it says, and its ends whatever failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from streams_recovery.cli import runner as module
from streams_recovery.cli.runner import Runner, RunOutcome
from streams_recovery.core.errors import BrokerUnavailable, Damaged, SparkJobFailed
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.workflows.step import JobOutcome, JobStep, Step, When, Workflow

LEFT = ArtifactRef.of("a/result.json", b"{}")
SPEC = ArtifactRef.of("a/spec.json", b"{}")
PLAN = ArtifactRef.of("a/plan.json", b"{}")
SMALL = JobVolume(ranges=2, records=7, payload_bytes=70)
BIG = JobVolume(ranges=2, records=7, payload_bytes=10**12)


@dataclass
class Stage:
    """Notes what was done, in its order. ``fails`` has the errors that steps of these names end with, one after the other."""

    fails: dict[str, list[BaseException]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    given: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    submitted: list[Any] = field(default_factory=list)
    say: Callable[[str], None] | None = None

    def step(self, name: str, **facts: Any) -> Step:
        """A step that returns its name."""
        return Step(name=name, call=self.calls(name, name), result=str, **facts)

    def job(self, name: str, *, plan: JobPlan | None = None, **facts: Any) -> JobStep:
        """A step that plans a Spark job."""
        return JobStep(name=name, job="backup", call=self.calls(name, plan or planned()), **facts)

    def calls(self, name: str, result: object) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            self.done.append(name)
            self.given[name] = arguments
            if self.fails.get(name):
                raise self.fails[name].pop(0)
            return result

        return call

    def submit(self, job: Any) -> ArtifactRef:
        """See Submitter."""
        self.done.append("spark")
        self.submitted.append(job)
        if self.fails.get("spark"):
            raise self.fails["spark"].pop(0)
        return LEFT

    @contextmanager
    def ahead(self, start: Any) -> Iterator[Any]:
        """See SparkSubmit."""
        self.done.append(f"{start.name} starts")
        yield SimpleNamespace(submit=lambda job: (self.done.append("given"), self.submit(job))[1])
        self.done.append("over")

    @property
    def alone(self) -> Any:
        """The submitter of jobs without Spark."""
        return SimpleNamespace(submit=lambda _job: (self.done.append("alone"), LEFT)[1])

    @property
    def runner(self) -> Runner:
        recovery: Any = SimpleNamespace(repository="a repository", connection="a connection", credentials="credentials")
        pair: Any = ("old", "clone")
        say = self.say or self.told.append
        return Runner(recovery=recovery, pair=pair, submitter=self, ahead=self.ahead, say=say, sleep=self.slept.append)

    def take(self, *steps: Step, reached: Phase | None = None, **given: object) -> RunOutcome:
        return self.runner.take(steps, given, reached=reached)


def planned(**changes: Any) -> JobPlan:
    """A job over two ranges."""
    return JobPlan(**{"spec": SPEC, "result_key": LEFT.key, "plan": PLAN, "ranges": 2, "offsets": 7, **changes})


def broken(what: str = "it is broken") -> Damaged:
    """An error that no other attempt mends."""
    return Damaged(what, next_step="none")


def away() -> BrokerUnavailable:
    """An error that passes."""
    return BrokerUnavailable("nobody answers", next_step="wait")


@pytest.fixture
def renewed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """Notes by whose ticket the lock is renewed, and when that ends."""
    seen: list[tuple[str, object]] = []

    @contextmanager
    def lock(_recovery: object, ticket: object) -> Iterator[None]:
        seen.append(("begins", ticket))
        try:
            yield
        finally:
            seen.append(("ends", ticket))

    monkeypatch.setattr(module, "renewed_lock", lock)
    return seen


def test_steps_are_taken_in_their_order_and_their_results_are_kept() -> None:
    stage = Stage()
    outcome = stage.take(stage.step("one"), stage.step("two"), stage.step("three"))
    assert stage.done == ["one", "two", "three"]
    assert outcome.results == {"one": "one", "two": "two", "three": "three"}
    assert (outcome.error, outcome.teardown_errors, stage.told) == (None, [], [])


def test_a_step_gets_the_results_it_needs_in_the_order_it_names_them_and_what_was_there_before() -> None:
    stage = Stage()
    ticket, one = stage.step("ticket"), stage.step("one")
    needs = stage.step("two", needs=(one, ticket))
    assert stage.take(one, needs, ticket="the ticket").of(needs) == "two"
    [_, *given] = stage.given["two"]
    assert given == ["one", "the ticket"]
    assert stage.given["two"][0].repository == "a repository", "the application's context comes first"


def test_a_step_can_need_a_part_of_a_result_or_the_file_of_a_job() -> None:
    stage = Stage()
    one, copy = stage.step("one"), stage.job("copy", locked=False)
    needs = stage.step("two", needs=(one.part(len), copy.file, one, copy))
    stage.take(one, copy, needs)
    assert stage.given["two"][1:] == (3, LEFT, "one", JobOutcome(result=LEFT, plan=PLAN, ranges=2, offsets=7))
    assert needs.needed == (one, copy), "each step once, for whoever draws an arrow"


def test_of_a_step_that_was_not_taken_there_is_no_part_and_no_file() -> None:
    stage = Stage()
    stage.take(stage.step("two", needs=(stage.step("one").part(len), stage.job("copy").file)))
    assert stage.given["two"][1:] == (None, None)


def test_a_workflow_is_run_from_its_ticket_to_its_result() -> None:
    stage = Stage()
    ticket, one = stage.step("ticket"), stage.step("one")
    result, end, beyond = stage.step("result", needs=(ticket, one)), stage.step("end", when=When.ALWAYS), stage.step("beyond")
    workflow = Workflow(before=(beyond,), opening=ticket, steps=(one, result, end), result=result, after=(beyond,))
    assert stage.runner.run(workflow, "the ticket") == "result"
    assert (stage.done, stage.given["result"][1:]) == (["one", "result", "end"], ("the ticket", "one"))
    assert [step.name for step in workflow.all_steps] == ["beyond", "ticket", "one", "result", "end", "beyond"]


def test_a_workflow_that_fails_raises_its_error_although_its_result_was_there() -> None:
    error = broken()
    stage = Stage(fails={"end": [error]})
    result, end = stage.step("result"), stage.step("end", when=When.ALWAYS)
    with pytest.raises(Damaged) as caught:
        stage.runner.run(Workflow(opening=stage.step("ticket"), steps=(result, end), result=result), "the ticket")
    assert (caught.value, stage.done) == (error, ["result", "end"])


def test_a_step_of_a_pair_gets_both_applications_the_original_first() -> None:
    stage = Stage()
    one = stage.step("one")
    stage.take(one, stage.step("two", pair=True, needs=(one,)))
    assert stage.given["two"] == ("old", "clone", "one")


def test_what_a_step_has_to_say_is_said() -> None:
    stage = Stage()
    stage.take(stage.step("one", message=lambda result: f"{result} is done"), stage.step("two"))
    assert stage.told == ["one is done"]


def test_what_can_be_run_next_stands_on_lines_of_its_own() -> None:
    stage = Stage()
    stage.take(stage.step("one", message=lambda _: "do this", commands=lambda result: (f"a {result}", "b")))
    assert stage.told == ["do this", "    a one", "    b"]


def test_so_it_does_behind_an_end_that_failed() -> None:
    stage = Stage(fails={"end": [broken().then("a command")]})
    stage.take(stage.step("end", when=When.ALWAYS))
    assert stage.told == ["end failed: it is broken. Next: none", "    a command"]


@pytest.mark.parametrize("failures", range(4))
def test_a_transient_error_is_tried_again_as_often_as_the_step_says(failures: int) -> None:
    stage = Stage(fails={"one": [away() for _ in range(failures)]})
    outcome = stage.take(stage.step("one", retries=2, delay=timedelta(seconds=7)))
    assert stage.done == ["one"] * min(failures + 1, 3)
    assert stage.slept == [7.0] * min(failures, 2)
    assert stage.told == [f"one, attempt {number} of 3: nobody answers" for number in range(1, min(failures, 2) + 1)]
    assert (outcome.error is None) == (failures < 3)


@pytest.mark.parametrize("error", [broken(), ValueError("a mistake"), KeyboardInterrupt()])
def test_no_other_error_is_tried_again(error: BaseException) -> None:
    stage = Stage(fails={"one": [error]})
    outcome = stage.take(stage.step("one", retries=2))
    assert (stage.done, stage.slept, outcome.error) == (["one"], [], error)


def test_a_step_without_retries_is_tried_once() -> None:
    stage = Stage(fails={"one": [away()]})
    assert isinstance(stage.take(stage.step("one")).error, BrokerUnavailable)
    assert (stage.done, stage.slept) == (["one"], [])


@pytest.mark.fault("F20")
@pytest.mark.parametrize("error", [broken(), away(), KeyboardInterrupt(), SystemExit(1), ValueError("a mistake")])
def test_after_a_failure_only_the_ends_are_taken_and_the_error_is_raised_for_whoever_wants_a_result(error: BaseException) -> None:
    stage = Stage(fails={"two": [error]})
    ends = (stage.step("always", when=When.ALWAYS), stage.step("never"), stage.step("failure", when=When.FAILURE))
    outcome = stage.take(stage.step("one"), stage.step("two"), *ends)
    assert stage.done == ["one", "two", "always", "failure"]
    for step in (stage.step("one"), stage.step("never")):
        with pytest.raises(type(error)) as caught:
            outcome.require(step)
        assert caught.value is error
    assert (outcome.of(stage.step("one")), outcome.of(stage.step("two"))) == ("one", None)


def test_without_a_failure_nothing_is_abandoned() -> None:
    stage = Stage()
    outcome = stage.take(stage.step("one"), stage.step("always", when=When.ALWAYS), stage.step("failure", when=When.FAILURE))
    assert stage.done == ["one", "always"]
    assert outcome.require(stage.step("one")) == "one"


def test_ctrl_c_while_a_retry_is_waited_for_ends_the_run_with_its_ends() -> None:
    stage = Stage(fails={"one": [away()]})

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    recovery: Any = None
    runner = Runner(recovery=recovery, submitter=stage, say=stage.told.append, sleep=interrupted)
    outcome = runner.take((stage.step("one", retries=2), stage.step("always", when=When.ALWAYS)), {})
    assert (stage.done, type(outcome.error)) == (["one", "always"], KeyboardInterrupt)


@pytest.mark.fault("F20")
@pytest.mark.parametrize("error", [BrokenPipeError(), KeyboardInterrupt()])
def test_a_terminal_that_is_gone_keeps_no_application_from_coming_back(error: BaseException) -> None:
    def gone(_text: str) -> None:
        raise error

    stage = Stage(say=gone)
    outcome = stage.take(stage.step("one", message=str), stage.step("two"), stage.step("always", when=When.ALWAYS))
    assert (stage.done, outcome.error) == (["one", "always"], error)


def test_of_several_errors_the_first_one_is_the_outcome_and_the_ends_are_all_taken() -> None:
    first, second, third = broken("first"), broken("second"), away()
    stage = Stage(fails={"one": [first], "two": [second], "three": [third]})
    ends = [stage.step(name, when=When.ALWAYS) for name in ("two", "three", "four")]
    outcome = stage.take(stage.step("one"), *ends)
    assert (stage.done, outcome.error) == (["one", "two", "three", "four"], first)
    assert outcome.teardown_errors == ["second", "nobody answers"]
    assert [text.partition(":")[0] for text in stage.told] == ["two failed", "three failed", "what could not be put back stays on record"]


def test_an_end_that_fails_fails_a_run_that_had_succeeded() -> None:
    error = broken()
    stage = Stage(fails={"always": [error]})
    outcome = stage.take(stage.step("one"), stage.step("always", when=When.ALWAYS), stage.step("failure", when=When.FAILURE))
    assert (stage.done, outcome.error) == (["one", "always", "failure"], error)


def test_an_end_that_fails_is_tried_again_and_the_next_one_is_taken_although_nobody_listens() -> None:
    def gone(_text: str) -> None:
        raise BrokenPipeError

    stage = Stage(fails={"one": [broken()], "two": [broken("second")]}, say=gone)
    outcome = stage.take(stage.step("one"), stage.step("two", when=When.ALWAYS), stage.step("three", when=When.ALWAYS))
    assert (stage.done, outcome.teardown_errors) == (["one", "two", "three"], ["second"])


@pytest.mark.parametrize("reached", [None, *Phase])
def test_a_restore_that_is_resumed_takes_no_step_that_its_journal_shows_as_done(reached: Phase | None) -> None:
    stage = Stage()
    steps = [stage.step(phase.value, done_in=phase) for phase in Phase]
    stage.take(*steps, stage.step("undated"), stage.step("always", when=When.ALWAYS), reached=reached)
    left = [phase.value for phase in Phase if reached is None or phase.rank > reached.rank]
    assert stage.done == [*left, "undated", "always"]


def test_whoever_needs_a_step_that_was_done_before_gets_nothing() -> None:
    stage = Stage()
    one = stage.step("one", done_in=Phase.SAVED)
    outcome = stage.take(one, stage.step("two", needs=(one,)), reached=Phase.SAVED)
    assert (stage.given["two"][1:], outcome.of(one)) == ((None,), None)


def test_a_job_is_planned_submitted_and_believed_by_what_it_left(renewed: list[tuple[str, object]]) -> None:
    stage = Stage()
    ticket = stage.step("ticket")
    copy = stage.job("copy", needs=(ticket,))
    outcome = stage.take(copy, stage.step("after", needs=(copy,)), ticket="the ticket")
    expected = JobOutcome(result=LEFT, plan=PLAN, ranges=2, offsets=7)
    assert (outcome.of(copy), stage.given["after"][1:]) == (expected, (expected,))
    assert (stage.done, renewed) == (["copy", "spark", "after"], [("begins", "the ticket"), ("ends", "the ticket")])
    [job] = stage.submitted
    assert (job.name, job.spec, job.result_key) == ("backup", SPEC, LEFT.key)
    assert (job.repository, job.connection, job.credentials) == ("a repository", "a connection", "credentials")
    assert stage.told == ["copy: a Spark job over 2 ranges"]


def test_spark_starts_before_the_steps_for_the_first_job_that_will_have_work(renewed: list[tuple[str, object]]) -> None:
    stage = Stage()
    ticket = stage.step("ticket")
    unsure = stage.job("unsure", needs=(ticket,))
    sure = JobStep(name="load", job="restore", call=stage.calls("load", planned()), needs=(ticket,), expected=lambda *_: BIG)
    stage.take(unsure, stage.step("stop"), sure, stage.step("after"), ticket="the ticket")
    assert stage.done == ["restore starts", "unsure", "given", "spark", "stop", "load", "given", "spark", "after", "over"]


@pytest.mark.parametrize("facts", [{"expected": lambda *_: None}, {"expected": lambda *_: BIG, "done_in": Phase.SAVED}])
def test_for_a_job_that_may_have_no_work_or_was_done_before_it_does_not(renewed: list[tuple[str, object]], facts: dict[str, Any]) -> None:
    stage = Stage()
    ticket = stage.step("ticket")
    stage.take(stage.job("copy", needs=(ticket,), **facts), stage.step("after"), ticket="the ticket", reached=Phase.SAVED)
    assert not any(each.endswith("starts") for each in stage.done)


@pytest.mark.parametrize(
    ("volume", "always", "who"), [(SMALL, False, "alone"), (SMALL, True, "spark"), (BIG, False, "spark"), (None, False, "spark")]
)
def test_one_process_does_a_small_job_unless_spark_is_to_do_all(
    renewed: list[tuple[str, object]], volume: JobVolume | None, always: bool, who: str
) -> None:
    stage = Stage()
    ticket = stage.step("ticket")
    job = stage.job("copy", plan=planned(volume=volume), needs=(ticket,), expected=lambda *_: volume)
    runner = replace(stage.runner, alone=None if always else stage.alone)
    assert runner.take([stage.step("cut"), job], {"ticket": "the ticket"}).of(job).result == LEFT
    ahead = ["backup starts"] if who == "spark" and volume else []
    given = ["given"] if ahead else []
    assert stage.done == [*ahead, "cut", "copy", *given, who, *(["over"] if ahead else [])]
    assert stage.told == ["copy: " + ("one process, without Spark, for 2 ranges" if who == "alone" else "a Spark job over 2 ranges")]


def test_the_volume_that_is_expected_is_asked_with_the_ticket(renewed: list[tuple[str, object]]) -> None:
    stage, asked = Stage(), []
    ticket = stage.step("ticket")
    job = stage.job("copy", needs=(ticket,), expected=lambda *of: asked.append(of[1:]))
    stage.take(job, ticket="the ticket")
    assert asked == [("the ticket",)]


@pytest.mark.parametrize("where", ["expected", "start", "end"])
def test_what_fails_where_spark_is_started_ahead_changes_nothing_for_the_steps(renewed: list[tuple[str, object]], where: str) -> None:
    def fails(*_: object) -> JobVolume | None:
        raise OSError("no space left on device")

    @contextmanager
    def start(_start: Any) -> Iterator[Stage]:
        if where == "start":
            fails()
        yield stage
        fails()

    stage = Stage()
    ticket = stage.step("ticket")
    job = stage.job("load", needs=(ticket,), expected=fails if where == "expected" else lambda *_: BIG)
    steps = [stage.step("quiesce"), job, stage.step("finish", when=When.ALWAYS)]
    outcome = replace(stage.runner, ahead=start).take(steps, {"ticket": "the ticket"})
    assert (outcome.error, stage.done) == (None, ["quiesce", "load", "spark", "finish"])


def test_ctrl_c_while_spark_is_started_ahead_takes_the_ends_and_nothing_else(renewed: list[tuple[str, object]]) -> None:
    def stopped(*_: object) -> JobVolume | None:
        raise KeyboardInterrupt

    stage = Stage()
    ticket = stage.step("ticket")
    job = stage.job("load", needs=(ticket,), expected=stopped)
    outcome = stage.take(stage.step("quiesce"), job, stage.step("resume", when=When.ALWAYS), ticket="the ticket")
    assert isinstance(outcome.error, KeyboardInterrupt)
    assert stage.done == ["resume"]


def test_spark_that_was_started_ends_whatever_fails_before_its_job(renewed: list[tuple[str, object]]) -> None:
    stage = Stage(fails={"stop": [broken()]})
    ticket = stage.step("ticket")
    job = stage.job("load", needs=(ticket,), expected=lambda *_: BIG)
    assert isinstance(stage.take(stage.step("stop"), job, ticket="the ticket").error, Damaged)
    assert stage.done == ["backup starts", "stop", "over"]


def test_a_job_without_a_lock_renews_none_and_one_without_a_cluster_gets_no_connection(renewed: list[tuple[str, object]]) -> None:
    stage = Stage()
    read = JobStep(name="read", job="check", call=lambda _recovery: planned(), locked=False)
    assert stage.take(read).error is None
    assert (renewed, stage.submitted[0].connection) == ([], None)


@pytest.mark.parametrize("nothing", [{"spec": None}, {"result_key": None}])
def test_a_job_with_nothing_to_do_is_not_submitted_and_those_behind_it_know(
    renewed: list[tuple[str, object]], nothing: dict[str, Any]
) -> None:
    stage = Stage()
    ticket = stage.step("ticket")
    copy = stage.job("copy", plan=planned(ranges=0, offsets=0, **nothing), needs=(ticket,))
    outcome = stage.take(copy, ticket="the ticket")
    assert outcome.of(copy) == JobOutcome(result=None, plan=PLAN, ranges=0, offsets=0)
    assert (stage.submitted, stage.told, len(renewed)) == ([], ["copy: nothing to do"], 2)


def test_a_job_that_fails_is_planned_again_when_the_error_may_pass(renewed: list[tuple[str, object]]) -> None:
    stage = Stage(fails={"spark": [away(), away()]})
    ticket = stage.step("ticket")
    copy = stage.job("copy", needs=(ticket,), retries=2, delay=timedelta(seconds=30))
    assert stage.take(copy, ticket="the ticket").error is None
    assert (stage.done, stage.slept) == (["copy", "spark"] * 3, [30.0, 30.0])
    assert [what for what, _ in renewed] == ["begins", "ends"] * 3, "no lock is renewed while nothing is done"


@pytest.mark.usefixtures("renewed")
@pytest.mark.parametrize(("ticket", "goes_on"), [("best_effort", True), ("required", False)])
def test_only_a_job_that_may_fail_for_this_ticket_lets_the_run_go_on(ticket: str, goes_on: bool) -> None:
    error = SparkJobFailed("no job succeeds", next_step="none")
    stage = Stage(fails={"spark": [error]})
    opened = stage.step("ticket")
    copy = stage.job("copy", needs=(opened,), may_fail=lambda given: given == "best_effort")
    outcome = stage.take(copy, stage.step("keep", needs=(copy,)), ticket=ticket)
    assert (outcome.error, "keep" in stage.done) == ((None, True) if goes_on else (error, False))
    if goes_on:
        assert stage.given["keep"][1:] == (None,)
        assert stage.told[-1].startswith("copy failed, and the restore goes on without it: no job succeeds")


@pytest.mark.usefixtures("renewed")
def test_ctrl_c_in_a_job_that_may_fail_is_no_failure_of_the_job() -> None:
    stage = Stage(fails={"spark": [KeyboardInterrupt()]})
    opened = stage.step("ticket")
    copy = stage.job("copy", needs=(opened,), may_fail=lambda _: True)
    outcome = stage.take(copy, stage.step("keep"), ticket="t")
    assert (type(outcome.error), "keep" in stage.done) == (KeyboardInterrupt, False)


def test_the_progress_of_a_job_is_shown_while_it_runs_and_not_longer() -> None:
    stage, seen = Stage(), []

    @contextmanager
    def view(step: str) -> Iterator[Callable[[Any], None]]:
        seen.append(f"{step} begins")
        yield seen.append
        seen.append(f"{step} ends")

    replace(stage.runner, progress=view).take((stage.job("copy", locked=False),), {})
    assert seen == ["copy begins", "copy ends"]
    (job,) = stage.submitted
    job.report("half of it")
    assert seen[-1] == "half of it"
