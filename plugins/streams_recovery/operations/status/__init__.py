"""The status of an application: looked at by the monitor, stored as one object, and read from there by everybody else."""
