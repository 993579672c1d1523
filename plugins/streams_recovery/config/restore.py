"""How savepoints are brought back."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams_recovery.config.fields import Integer, Moment, RateLimits, Seconds, Section, Switch, TopicName
from streams_recovery.config.rules import OffsetRule


class Restore(Section):
    """Defaults of every restore. A run's own parameters go before them. ``topic_map`` gives topics of a savepoint, other than internal ones, the names
    they have for this application: a clone's outputs, or copies of inputs. Topics that are created have ``replication_factor`` replicas, as many as in the
    savepoint without it. A running application is asked for ``sampled_keys`` of each store that is queryable.
    """

    consumer_group_strategy: OffsetRule = "exact"
    time_window_end: Moment | None = None
    throttle: RateLimits = RateLimits()
    stall_timeout_seconds: Seconds = 120
    catch_up_timeout_seconds: Seconds = 900
    producers_still_seconds: Seconds = 30
    compare_keys: Switch = False
    sampled_keys: Annotated[Integer, Field(ge=1, le=10_000)] = 100
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)
    replication_factor: Annotated[Integer, Field(ge=1, le=100)] | None = None
