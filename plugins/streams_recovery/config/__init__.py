"""Ring 1: an application's YAML file as frozen models."""
