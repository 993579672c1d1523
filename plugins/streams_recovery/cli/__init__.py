"""The command line: everything an operator needs when Airflow itself is lost."""
