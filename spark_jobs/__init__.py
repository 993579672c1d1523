"""Spark jobs: records move in tasks, the driver sees one small row a task. The only place that imports pyspark."""
