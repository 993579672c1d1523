"""Ring 1: how a Kafka Streams application is stopped, started, held, asked and wiped, one file per way of running it."""
