"""Workflows: which steps are taken, in which order, and how each is treated. Airflow's DAGs and the command line take the same ones."""
