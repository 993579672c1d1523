"""OSO kafka-backup in the benchmark: its configuration for the same topics, and its runs. The program is the user's own.

Written for 0.25.2. What it may decide for itself it decides: only the codec, the number of partitions at once and the directory are given. It copies
what there is when it begins and ends then, and loads into topics that are there and empty.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """The program, and where its files go."""

    program: Path
    bootstrap: str
    directory: Path

    def backup(self, topic: str, backup_id: str) -> list[str]:
        """The command that copies a topic."""
        config = self._common("backup", "source", topic, backup_id) | {
            "backup": {
                "compression": "zstd",
                "compression_level": 3,
                "stop_at_current_offsets": True,
                "isolation_level": "read_committed",
                "include_offset_headers": False,
                "max_concurrent_partitions": AT_ONCE,
            }
        }
        return self._command("backup", backup_id, config)

    def restore(self, topic: str, backup_id: str, target: str) -> list[str]:
        """The command that loads that copy into another topic."""
        config = self._common("restore", "target", topic, backup_id) | {
            "restore": {"topic_mapping": {topic: target}, "max_concurrent_partitions": AT_ONCE, "restore_topic_configs": False}
        }
        return self._command("restore", backup_id, config)

    def stored(self, backup_id: str) -> int:
        """Bytes of the segments of a copy."""
        return sum(path.stat().st_size for path in (self.directory / backup_id).rglob("segment-*"))

    def _common(self, mode: str, side: str, topic: str, backup_id: str) -> dict[str, object]:
        return {
            "mode": mode,
            "backup_id": backup_id,
            side: {"bootstrap_servers": [self.bootstrap], "topics": {"include": [topic]}},
            "storage": {"backend": "filesystem", "path": str(self.directory)},
            "metrics": {"enabled": False},
        }

    def _command(self, mode: str, backup_id: str, config: dict[str, object]) -> list[str]:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{backup_id}-{mode}.yaml"
        # JSON is YAML.
        path.write_text(json.dumps(config, indent=2))
        return [str(self.program), mode, "--config", str(path)]


def version(program: Path) -> str:
    """The version that the program names."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of unknown version"
