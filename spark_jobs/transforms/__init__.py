"""The work of the jobs, apart from arguments and sessions."""
