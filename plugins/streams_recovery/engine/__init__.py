"""Starting Spark jobs: what they are made of and how they are submitted. Knows neither Airflow nor pyspark."""
