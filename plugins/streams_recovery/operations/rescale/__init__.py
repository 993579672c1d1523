"""Other numbers of partitions: a savepoint's records are placed anew, as another savepoint of the same moment, which is restored."""

from __future__ import annotations
