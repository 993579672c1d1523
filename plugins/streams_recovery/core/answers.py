"""Bytes of an application's own serialisers as far as a person can read them, and the text or JSON that an application answers in their place."""

from __future__ import annotations

from streams_recovery.core.codec import document


def is_answer(value: bytes, answer: object) -> bool | None:
    """True if ``answer`` is this value, as text or as JSON. None if the bytes are neither."""
    text = readable_text(value)
    if text is None:
        return None
    if text == answer:
        return True
    try:
        return bool(document(text) == answer)
    except ValueError:
        # Text that is not JSON was shown as text, or by an unknown serialiser.
        return False if isinstance(answer, str) else None


def readable_text(data: bytes) -> str | None:
    """Printable text. None for other bytes, and for none at all."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # Binary numbers may also be valid UTF-8, but of unprintable characters.
    return text if text and all(c.isprintable() or c in "\n\r\t" for c in text) else None
