"""What our jobs ask of Spark, on next to nothing: work in tasks, rows through Arrow into Python and back, a grouping, a join."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it


def main() -> None:
    """Ask it."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.parallelize([b"", b""], 2).mapPartitions(lambda shares: shares).collect()
    rows = spark.range(0, 8, 1, 2).mapInArrow(lambda batches: batches, "id long")
    latest = rows.groupBy((F.col("id") % 4).alias("key")).agg(F.max_by(F.struct("id"), "id").alias("value"))
    latest.join(latest.withColumnRenamed("value", "other"), "key", "full_outer").collect()
    spark.stop()


if __name__ == "__main__":
    main()
