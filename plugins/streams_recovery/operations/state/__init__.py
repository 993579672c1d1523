"""A store as a table: open_side, table, compare, export, and an edited one written back as a savepoint of its own."""

from streams_recovery.core.ids import LIVE
from streams_recovery.operations.state.ask import LIVE_WORDS, MOST_ROWS, Asked, ask_key, live_cells
from streams_recovery.operations.state.compare import Comparison, compare, difference_cells
from streams_recovery.operations.state.export import ExportRequest, ExportTicket, begin_export, conclude_export
from streams_recovery.operations.state.files import FileFormat, as_json, in_columns, read_table, write_table, write_text
from streams_recovery.operations.state.inspect import compare_savepoints, look_up
from streams_recovery.operations.state.read import StoreSide, matching_rows, open_side, tables
from streams_recovery.operations.state.write import EditRequest, EditSummary, write_state

__all__ = [
    "LIVE",
    "LIVE_WORDS",
    "MOST_ROWS",
    "Asked",
    "Comparison",
    "EditRequest",
    "EditSummary",
    "ExportRequest",
    "ExportTicket",
    "FileFormat",
    "StoreSide",
    "as_json",
    "ask_key",
    "begin_export",
    "compare",
    "compare_savepoints",
    "conclude_export",
    "difference_cells",
    "in_columns",
    "live_cells",
    "look_up",
    "matching_rows",
    "open_side",
    "read_table",
    "tables",
    "write_state",
    "write_table",
    "write_text",
]
