"""Comparing the real outputs with those of a clone or of an interval: begin, plan_job, (Spark), conclude, in this order. Reads only, and takes no lock."""

from streams_recovery.operations.outputs.begin import against, begin, conclude, plan_job
