"""All pages that are made from the code: which they are, and how they come into the site or into docs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from documentation.checks import checks_page
from documentation.command_tables import with_tables
from documentation.configuration_keys import configuration_page
from documentation.dag_pages import dag_files, dags_in
from documentation.faults import marked
from documentation.messages import messages_page
from documentation.remedies import MARK, remedies_page

PROJECT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = PROJECT / "docs"
COMMAND_LINE: Final = "command-line.md"


def site_pages() -> dict[str, str]:
    """Those that are made whenever the site is built, by their paths below docs, where no file of theirs lies."""
    return {
        "checks.md": checks_page(),
        "configuration-keys.md": configuration_page(),
        "messages.md": messages_page(PROJECT / "plugins" / "streams_recovery"),
        "remedies.md": remedies_page(marked(mark=MARK)),
    }


def dag_pages() -> dict[str, str]:
    """Those of the DAGs. Airflow must have a home."""
    return {f"dags/{name}": text for name, text in dag_files(dags_in(PROJECT / "dags"))}


def command_page() -> dict[str, str]:
    """The page of the command line, with the tables of its commands."""
    return {COMMAND_LINE: with_tables((DOCS / COMMAND_LINE).read_text(encoding="utf-8"))}


def write() -> Iterator[str]:
    """Write the pages of the DAGs and of the command line, and give the names of those that changed. Airflow gets a home that is removed again."""
    with tempfile.TemporaryDirectory(prefix="airflow-") as home:
        os.environ.update(
            {
                "AIRFLOW_HOME": home,
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__CORE__PLUGINS_FOLDER": home,
                "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
            }
        )
        os.environ.pop("STREAMS_RECOVERY_CONFIG_DIR", None)
        # The example has every DAG that there is.
        os.environ["STREAMS_RECOVERY_ARCHIVE"] = os.environ["STREAMS_RECOVERY_MIRROR"] = "true"
        for name, text in {**dag_pages(), **command_page()}.items():
            path = DOCS / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                yield f"docs/{name}"
