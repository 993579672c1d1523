"""Ring 0: the decisions, as pure functions over frozen values. Imports the standard library only, so it runs on a bare Spark executor."""
