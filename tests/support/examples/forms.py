"""Which fields of a form are for which types of a request's fields."""

from __future__ import annotations

import enum
import types
from typing import Any, Final, get_args, get_origin

from streams_recovery.core.forms import FieldKind, FormField
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.restore.point_in_time import AsOf

_KINDS: Final[dict[Any, set[FieldKind]]] = {
    str: {FieldKind.TEXT, FieldKind.DOCUMENT, FieldKind.APPLICATION, FieldKind.MOMENT, FieldKind.CHOICE},
    bool: {FieldKind.SWITCH},
    int: {FieldKind.COUNT},
    tuple[int, ...]: {FieldKind.NUMBERS},
    tuple[str, ...]: {FieldKind.TOPICS, FieldKind.GROUPS},
    OffsetStrategy: {FieldKind.TEXT},
    AsOf: {FieldKind.MOMENT, FieldKind.CHOICE},
}


def takes(field: FormField, hint: Any) -> bool:
    """True if a request's field of this type can be made of what the form's field takes."""
    if hint in _KINDS:
        return field.kind in _KINDS[hint]
    kinds = [one for one in (get_args(hint) if get_origin(hint) is types.UnionType else (hint,)) if one is not types.NoneType]
    if isinstance(kinds[0], type) and issubclass(kinds[0], enum.Enum):
        return field.kind is FieldKind.CHOICE and {one.value for one in kinds[0]} <= set(field.choices)
    return field.kind in _KINDS[kinds[0]]
