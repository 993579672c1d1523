"""The outermost ring: what an Airflow in which this package is installed finds by its entry points and its configuration."""
