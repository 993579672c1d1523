"""The page *Recovery* in Airflow's API server."""
