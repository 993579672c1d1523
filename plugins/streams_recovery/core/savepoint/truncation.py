"""Detects a log that was truncated: it may have grown again to the same length, with other records."""

from __future__ import annotations


def truncation(*, seen: int | None, upto: int, now: int | None, epoch_end: int | None) -> str | None:
    """Why some records below offset ``upto``, written up to leader epoch ``seen``, are gone. None if they are all there, or if it cannot be known.

    ``now`` is the log's present leader epoch. ``epoch_end`` is the offset at which the broker says that the records of epochs up to ``seen`` end.
    """
    if seen is None:
        return None
    if now is not None and now < seen:
        return f"its leader epoch went back from {seen} to {now}"
    if epoch_end is not None and epoch_end < upto:
        return f"its records of leader epoch {seen} end at {epoch_end}, before offset {upto}"
    return None
