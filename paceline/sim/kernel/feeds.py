"""Which flows wait for which: a feed is a set of upstream flows that some flows of a job wait for together.

    feed           a        b           c
    upstream      [1 4]    [2 5 6]     [3]          of all feeds, one after the other
    fed            7 8      9           0           each flow waits for one feed, `by`

`Feeds` has those of one job, `AllFeeds` those of all jobs in one set of arrays, so that one reduction over `upstream`
finds the slowest flow of every feed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.model.patterns import FlowId, FlowSpec


@dataclass(frozen=True, slots=True)
class Feeds:
    upstream: Ints  # of one feed after the other
    upstream_in: Ints  # how many each feed has
    fed: Ints  # flows that wait ...
    by: Ints  # ... and for which feed


def feeds_of(specs: Sequence[FlowSpec], number_of: Mapping[FlowId, int]) -> Feeds:
    """The feeds of one job's flows."""
    fed_flows = [spec for spec in specs if spec.upstream]
    place_of = {upstream: place for place, upstream in enumerate(dict.fromkeys(spec.upstream for spec in fed_flows))}
    return Feeds(
        np.array([number_of[feeder] for upstream in place_of for feeder in upstream], np.int64),
        np.array([len(upstream) for upstream in place_of], np.int64),
        np.array([number_of[spec.flow] for spec in fed_flows], np.int64),
        np.array([place_of[spec.upstream] for spec in fed_flows], np.int64),
    )


@dataclass(frozen=True, slots=True)
class AllFeeds:
    upstream: Ints
    first_upstream: Ints  # where each feed begins in `upstream`
    fed: Ints
    by: Ints
    upstream_grain: Floats  # the grain in which each of `upstream` is forwarded


def all_feeds(of_jobs: Sequence[Feeds], grain: Floats) -> AllFeeds:
    """`grain`: that of every flow."""
    jobs = [feeds for feeds in of_jobs if len(feeds.fed)]
    offsets = np.cumsum([0, *(len(feeds.upstream_in) for feeds in jobs)])
    none = np.zeros(0, np.int64)
    upstream_in = np.concatenate([none, *(feeds.upstream_in for feeds in jobs)])
    fed = np.concatenate([none, *(feeds.fed for feeds in jobs)])
    by = np.concatenate([none, *(feeds.by + first for feeds, first in zip(jobs, offsets[:-1], strict=True))])
    # The flows of one feed are fed by no feed or by one: their grain is that of the flows they feed.
    grain_of_feed = np.zeros(int(offsets[-1]))
    grain_of_feed[by] = grain[fed]
    return AllFeeds(
        upstream=np.concatenate([none, *(feeds.upstream for feeds in jobs)]),
        first_upstream=np.cumsum(upstream_in) - upstream_in,
        fed=fed,
        by=by,
        upstream_grain=np.repeat(grain_of_feed, upstream_in),
    )


def with_job(found: AllFeeds, feeds: Feeds, grain: Floats) -> AllFeeds:
    """As all_feeds finds them, with one job more, which comes last."""
    if not len(feeds.fed):
        return found
    one = all_feeds((feeds,), grain)
    return AllFeeds(
        upstream=np.concatenate([found.upstream, one.upstream]),
        first_upstream=np.concatenate([found.first_upstream, one.first_upstream + len(found.upstream)]),
        fed=np.concatenate([found.fed, one.fed]),
        by=np.concatenate([found.by, one.by + len(found.first_upstream)]),
        upstream_grain=np.concatenate([found.upstream_grain, one.upstream_grain]),
    )
