"""What the jobs do, apart from arguments and sessions."""
