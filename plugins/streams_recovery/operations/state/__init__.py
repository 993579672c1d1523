"""A store as a table: open_side, table, compare, export, and an edited one written back as a savepoint of its own."""

from streams_recovery.core.words import LIVE
from streams_recovery.operations.state.inspect import compare, compare_savepoints, difference_cells, look_up
from streams_recovery.operations.state.keys import LIVE_WORDS, MOST_ROWS, FoundKey, get_key, live_cells
from streams_recovery.operations.state.read import (
    FileFormat,
    StoreSide,
    as_json,
    file_format,
    in_columns,
    matching_rows,
    open_side,
    read_table,
    tables,
    write_table,
    write_text,
)
from streams_recovery.operations.state.write import (
    EditRequest,
    EditSummary,
    ExportRequest,
    ExportTicket,
    begin_export,
    conclude_export,
    write_state,
)
