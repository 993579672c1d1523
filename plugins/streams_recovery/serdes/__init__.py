"""Bytes of keys and values as cells of a table, and tables as Arrow. Used in Spark tasks too, so it knows no cluster and no configuration."""
