"""A store as a table: open_side, table, compare, export, and an edited one written back as a savepoint of its own."""

from streams_recovery.operations.state.compare import Comparison, compare
from streams_recovery.operations.state.export import ExportRequest, ExportTicket, begin_export, conclude_export
from streams_recovery.operations.state.files import FileFormat, as_json, in_columns, read_table, write_table, write_text
from streams_recovery.operations.state.read import LIVE, Side, open_side, tables
from streams_recovery.operations.state.write import EditRequest, EditSummary, write_state

__all__ = [
    "LIVE",
    "Comparison",
    "EditRequest",
    "EditSummary",
    "ExportRequest",
    "ExportTicket",
    "FileFormat",
    "Side",
    "as_json",
    "begin_export",
    "compare",
    "conclude_export",
    "in_columns",
    "open_side",
    "read_table",
    "tables",
    "write_state",
    "write_table",
    "write_text",
]
