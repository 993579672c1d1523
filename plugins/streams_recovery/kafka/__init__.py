"""Ring 1: what the project asks of a Kafka cluster. The only place that imports a Kafka client."""
