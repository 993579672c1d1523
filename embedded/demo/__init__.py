"""The demonstration: an application loses everything it has and comes back, with every key equal, driven through a running Airflow."""
