"""The plan of a cut-over, a roll-back or an upgrade, for people."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.core.rollout.cutover import CutoverPlan, Step, UpgradePlan
from streams_recovery.core.text.escaping import Markdown, code, joined, md
from streams_recovery.core.text.restore_plan import warned

_SHOWN = 40


def cutover_text(plan: CutoverPlan) -> Markdown:
    """The plan in the order in which it would be carried out."""
    old, clone = code(plan.old), code(plan.clone)
    over = plan.step is Step.CUT_OVER
    steps = _cut_over(plan) if over else _roll_back(plan)
    return joined(
        [
            md("### Cut over from {} to {}", old, clone) if over else md("### Roll back from {} to {}", clone, old),
            _EMPTY,
            md("Plan {}.", code(plan.hash[:12])),
            _EMPTY,
            *warned(plan.warnings),
            *steps,
            _EMPTY,
            md("As of now, output of **{:,} input records** would come twice{}. None is lost.", sum(plan.again.values()), _tail(plan)),
            _EMPTY,
            *_table(plan),
        ]
    )


_EMPTY = md("")
_UPGRADED = md(
    "No result comes twice and none is lost. No input is processed between steps 1 and 3. If a step before 3 fails, the old application is started again. "
    "After step 3, use `roll_back` to return to it."
)


def upgrade_text(plan: UpgradePlan) -> Markdown:
    """The plan of an upgrade."""
    old, clone, running = code(plan.old), code(plan.clone), ", ".join(plan.running) or "none is running"
    return joined(
        [
            md("### Upgrade from {} to {}", old, clone),
            _EMPTY,
            *warned(plan.warnings),
            md("1. **Stop** {} ({}) and take an exact savepoint of it. It stays down.", old, running),
            md("2. **Restore** {} from it, compared record by record.", clone),
            md("3. **Start** {} with the outputs {}, exactly where {} stopped.", clone, _renamed(plan.outputs), old),
            _EMPTY,
            _UPGRADED,
        ]
    )


def _renamed(outputs: Mapping[str, str]) -> str:
    return ", ".join(real if own == real else f"{own} → {real}" for own, real in sorted(outputs.items()))


def _cut_over(plan: CutoverPlan) -> list[Markdown]:
    old, clone = code(plan.old), code(plan.clone)
    behind = sum(plan.lag.values())
    return [
        md("1. **Stop** {} ({}), which is {:,} records behind its input.", clone, _running(plan, plan.clone), behind),
        md(
            "2. **Wait** until {} has processed at least as much, including its repartition topics, and **stop** it ({}). Nothing of it is deleted.",
            old,
            _running(plan, plan.old),
        ),
        md("3. **Start** {} with the outputs {}.", clone, _renamed(plan.outputs)),
    ]


def _roll_back(plan: CutoverPlan) -> list[Markdown]:
    old, clone = code(plan.old), code(plan.clone)
    stopped = _running(plan, plan.clone)
    return [
        md("1. **Stop** {} ({}). Nothing of it is deleted. If it is started again, it writes its own outputs.", clone, stopped),
        md("2. **Start** {} ({}) where it stopped.", old, _running(plan, plan.old)),
    ]


def _running(plan: CutoverPlan, application_id: str) -> str:
    return ", ".join(plan.running[application_id]) or "none is running"


def _tail(plan: CutoverPlan) -> Markdown:
    return md(", and output of {:,} unread records of repartition topics", sum(plan.tail.values())) if plan.tail else _EMPTY


def _table(plan: CutoverPlan) -> list[Markdown]:
    old, clone = plan.offsets[plan.old], plan.offsets[plan.clone]
    names = sorted({*old, *clone})
    rows = [
        md("| {} | {} | {} | {:,} | {:,} |", name, old.get(name, "-"), clone.get(name, "-"), plan.lag.get(name, 0), plan.again.get(name, 0))
        for name in names[:_SHOWN]
    ]
    more = [md("| {} more | | | | |", len(names) - _SHOWN)] if len(names) > _SHOWN else []
    head = md("| partition | {} has read to | {} | behind | twice |", code(plan.old), code(plan.clone))
    return [head, md("|---|---:|---:|---:|---:|"), *rows, *more]
