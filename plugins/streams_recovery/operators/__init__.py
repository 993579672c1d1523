"""Ring 2: one operator per step. An operator turns arguments into one call and its result into XCom; it decides nothing."""
