"""Ring 1: the repository. The only place that imports an object-store library."""
