"""An application's YAML file as frozen models."""
