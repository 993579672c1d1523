"""Java programs of the tests: compiled once, and started with the example's archive of classes, whose class path theirs begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embedded import example
from embedded.class_archive import options
from embedded.compiled import compiled
from embedded.java import find_java

# Kafka Streams programs that tests start, a source file each.
STREAMS: Final = Path(__file__).with_name("streams")


def command_of(source: Path) -> list[str]:
    """What runs the program of this source file; its arguments follow."""
    base = example.program()
    class_path = (*base.class_path, compiled(source, base.class_path))
    return [str(find_java()), *options(base, example.exercise), "-cp", ":".join(map(str, class_path)), source.stem]
