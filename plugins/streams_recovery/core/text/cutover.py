"""The plan of a cut-over, a roll-back or an upgrade, for people."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.core.rollout.cutover import CutoverPlan, Step, UpgradePlan

_SHOWN = 40


def cutover_text(plan: CutoverPlan) -> str:
    """Markdown, in the order in which it would be carried out."""
    steps = _cut_over(plan) if plan.step is Step.CUT_OVER else _roll_back(plan)
    return "\n".join(
        [
            f"### {_TITLES[plan.step].format(plan=plan)}",
            "",
            f"Plan `{plan.hash[:12]}`.",
            "",
            *(f"> **Warning:** {warning}" for warning in plan.warnings),
            *([""] if plan.warnings else []),
            *(f"{number}. {step}" for number, step in enumerate(steps, 1)),
            "",
            f"As of now, output of **{sum(plan.again.values()):,} input records** would come twice{_tail(plan)}. None is lost.",
            "",
            *_table(plan),
        ]
    )


_TITLES = {
    Step.CUT_OVER: "Cut over from `{plan.old}` to `{plan.clone}`",
    Step.ROLL_BACK: "Roll back from `{plan.clone}` to `{plan.old}`",
}


_UPGRADED = (
    "No result comes twice and none is lost. No input is processed between steps 1 and 3. If a step before 3 fails, the old application is started again. "
    "After step 3, use `roll_back` to return to it."
)


def upgrade_text(plan: UpgradePlan) -> str:
    """The plan of an upgrade as markdown."""
    return "\n".join(
        [
            f"### Upgrade from `{plan.old}` to `{plan.clone}`",
            "",
            *(f"> **Warning:** {warning}" for warning in plan.warnings),
            *([""] if plan.warnings else []),
            f"1. **Stop** `{plan.old}` ({', '.join(plan.running) or 'none is running'}) and take an exact savepoint of it. It stays down.",
            f"2. **Restore** `{plan.clone}` from it, compared record by record.",
            f"3. **Start** `{plan.clone}` with the outputs {_renamed(plan.outputs)}, exactly where `{plan.old}` stopped.",
            "",
            _UPGRADED,
        ]
    )


def _renamed(outputs: Mapping[str, str]) -> str:
    return ", ".join(real if own == real else f"{own} → {real}" for own, real in sorted(outputs.items()))


def _cut_over(plan: CutoverPlan) -> list[str]:
    waiting = (
        f"**Wait** until `{plan.old}` has processed at least as much, including its repartition topics, and **stop** it ({_running(plan, plan.old)}). "
        "Nothing of it is deleted."
    )
    return [
        f"**Stop** `{plan.clone}` ({_running(plan, plan.clone)}), which is {sum(plan.lag.values()):,} records behind its input.",
        waiting,
        f"**Start** `{plan.clone}` with the outputs {_renamed(plan.outputs)}.",
    ]


def _roll_back(plan: CutoverPlan) -> list[str]:
    return [
        f"**Stop** `{plan.clone}` ({_running(plan, plan.clone)}). Nothing of it is deleted. If it is started again, it writes its own outputs.",
        f"**Start** `{plan.old}` ({_running(plan, plan.old)}) where it stopped.",
    ]


def _running(plan: CutoverPlan, application_id: str) -> str:
    return ", ".join(plan.running[application_id]) or "none is running"


def _tail(plan: CutoverPlan) -> str:
    return f", and output of {sum(plan.tail.values()):,} unread records of repartition topics" if plan.tail else ""


def _table(plan: CutoverPlan) -> list[str]:
    names = sorted({*plan.offsets[plan.old], *plan.offsets[plan.clone]})
    rows = [
        f"| {name} | {plan.offsets[plan.old].get(name, '-')} | {plan.offsets[plan.clone].get(name, '-')} | {plan.lag.get(name, 0):,} "
        f"| {plan.again.get(name, 0):,} |"
        for name in names[:_SHOWN]
    ]
    more = [f"| {len(names) - _SHOWN} more | | | | |"] if len(names) > _SHOWN else []
    return [f"| partition | `{plan.old}` has read to | `{plan.clone}` | behind | twice |", "|---|---:|---:|---:|---:|", *rows, *more]
