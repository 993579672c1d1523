"""The whole stack on one machine without containers: Kafka, the example application, Spark and Airflow, from Python 3.11 and Java 17 alone."""
