"""What the API server of Airflow gets from this package."""
