"""``python -m documentation`` writes the pages of the DAGs, and the tables of the command line. ``make pages`` calls it."""

from __future__ import annotations

import sys

from documentation.pages import write

if __name__ == "__main__":
    sys.stdout.writelines(f"{file}\n" for file in write())
