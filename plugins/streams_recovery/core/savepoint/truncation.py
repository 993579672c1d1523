"""Whether a log still has the records that it had: one that was cut back and has grown again is as long as before, and another one."""

from __future__ import annotations


def truncation(*, seen: int | None, upto: int, now: int | None, epoch_end: int | None) -> str | None:
    """Why the records below offset ``upto``, written up to leader epoch ``seen``, are not all there any more; None while they are, or nobody can tell.

    ``now`` is the log's leader epoch, and ``epoch_end`` where by the broker the records of epochs up to ``seen`` end.
    """
    if seen is None:
        return None
    if now is not None and now < seen:
        return f"its leader epoch went back from {seen} to {now}"
    if epoch_end is not None and epoch_end < upto:
        return f"its records of leader epoch {seen} end at {epoch_end}, before offset {upto}"
    return None
