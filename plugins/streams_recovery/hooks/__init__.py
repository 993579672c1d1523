"""Ring 2: what Airflow knows about connections, in the words of the rings below."""
