"""Ring 1: an application's YAML file as frozen models."""

from streams_recovery.config.loader import config_directory, load, load_all, load_application, load_named
from streams_recovery.config.model import ApplicationConfig

__all__ = ["ApplicationConfig", "config_directory", "load", "load_all", "load_application", "load_named"]
