"""The version of this software, as pyproject.toml has it. Kept in code, because the package also works without being installed."""

VERSION = "0.1.0"
