"""The estimate for an instant in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from streams_recovery.core.status.instant import Instant, TimeNeeded, Way
from streams_recovery.core.status.look import InputAmount
from streams_recovery.ui.overview import moment, number, seconds, size

ROW = tuple[str, Markup]
_NAMED = 6


def plan_rows(plan: Instant) -> tuple[ROW, ...]:
    """The plan line by line. Empty when nothing can come back."""
    return tuple(_rows(plan)) if plan.base is not None else ()


def _rows(plan: Instant) -> Iterator[ROW]:
    yield "Comes back", _comes_back(plan)
    if plan.way is Way.MOMENT:
        yield "Input replayed", Markup("{}, from the archive").format(_amounts(plan.replayed))
    yield "Lost", _lost(plan)
    yield "Emitted again", _again(plan)
    yield "Topics replaced", _replaced(plan)
    yield "Moves", _moves(plan)
    yield "Takes", _takes(plan.needed)
    yield (
        "Needs",
        Markup("an approval of the exact plan, the <code>restore</code> rights on the cluster, and instances that can be stopped"),
    )


def _comes_back(plan: Instant) -> Markup:
    if plan.base is None:
        return Markup("nothing")
    at, name = moment(plan.base.captured_at), plan.base.savepoint_id
    if plan.way is Way.MOMENT:
        return Markup("the state of {}: savepoint <code>{}</code> of {}, and the archived input behind it").format(
            moment(plan.moment), name, at
        )
    if plan.way is Way.REBUILD:
        return Markup("offsets and settings of {} (savepoint <code>{}</code>); the state is built again from the input").format(at, name)
    return Markup("the state of {} (savepoint <code>{}</code>)").format(at, name)


def _lost(plan: Instant) -> Markup:
    if not plan.lost_seconds:
        return Markup("nothing up to this instant")
    since = Markup("the savepoint") if plan.kept is None else Markup("{}, up to when input is archived,").format(moment(plan.kept))
    return Markup(
        "{} between {} and this instant, if the cluster no longer has that input ({}). While it has it, the application reads it again."
    ).format(seconds(plan.lost_seconds), since, _amounts(plan.lost))


def _again(plan: Instant) -> Markup:
    if plan.way is Way.MOMENT:
        return Markup(
            "nothing in the application's own outputs: a second application writes to outputs of its own. In place: the outputs of the replayed input."
        )
    return Markup("the outputs of the input behind the savepoint: {}").format(_amounts(plan.again))


def _replaced(plan: Instant) -> Markup:
    if not plan.replaced:
        return Markup("none")
    named = ", ".join(plan.replaced[:_NAMED]) + (", …" if len(plan.replaced) > _NAMED else "")
    word = "internal topic" if len(plan.replaced) == 1 else "internal topics"
    return Markup('<span title="{}">{} {}</span>, after a safety savepoint of what is there').format(named, len(plan.replaced), word)


def _moves(plan: Instant) -> Markup:
    state = f", about {size(plan.bytes)} of state" if plan.bytes is not None else ""
    return Markup("{} records{}").format(number(plan.records), state)


def _takes(needed: TimeNeeded | None) -> Markup:
    if needed is None:
        return Markup("not known: nothing was measured")
    by = (
        f"by {needed.measured} earlier restores"
        if needed.measured > 1
        else "by one earlier restore"
        if needed.measured
        else "by default rates, no restore was measured"
    )
    rest = ". The time to process the input again is not in it: how much that is, is not known" if needed.without_input else ""
    return Markup("about {}, {}{}").format(seconds(needed.seconds), by, rest)


def _amounts(amounts: Sequence[InputAmount]) -> Markup:
    if not amounts:
        return Markup("no declared input")
    each = (Markup("<code>{}</code> {}").format(amount.topic, _records(amount.records)) for amount in amounts)
    return Markup(", ").join(each)


def _records(count: int | None) -> str:
    if count is None:
        return "an unknown number of records"
    if round(count) == 0:
        return "no records"
    return "about 1 record" if count == 1 else f"about {number(count)} records"
