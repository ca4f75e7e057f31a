"""Dividing links among a crowd, compiled where there was a compiler (crowd.c); flowcore's own functions otherwise.

`Prices` and `Borrowing` mirror the structures of crowd.c field by field.
"""

import ctypes
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from paceline.flowcore.allocation.arbiters import Contender, groups
from paceline.flowcore.allocation.borrowing import NEARLY_ALL, Floats, Ints, ceilings
from paceline.flowcore.allocation.pricing import ROUNDS, rates_by_price
from paceline.flowcore.messages.reports import Bid
from paceline.sim.kernel.library import COLUMN, FRACTION, NUMBER, library


class Prices(ctypes.Structure):
    _fields_ = (
        *((name, NUMBER) for name in ("jobs", "links", "rounds")),
        *((name, COLUMN) for name in ("first", "link", "flows", "capacity", "weight")),
        *((name, COLUMN) for name in ("use", "price", "wanted", "worth", "pays", "order", "spare", "rates")),
    )


class Borrowing(ctypes.Structure):
    _fields_ = (
        *((name, NUMBER) for name in ("flows", "hops", "links", "owners")),
        *((name, COLUMN) for name in ("share", "capacity", "path", "host", "job")),
        ("nearly_all", FRACTION),
        *((name, COLUMN) for name in ("taken", "sum", "waiting", "of_host", "of_job", "next", "head", "ceiling")),
    )


def crowd_rates(weight: Floats, first: Ints, link: Ints, flows: Floats, capacity_bps: Floats) -> Floats:
    """As pricing.rates_by_price; the entries of job j are those from first[j] to first[j + 1]."""
    jobs, links, compiled = len(weight), len(capacity_bps), library()
    if compiled is None:
        job = np.repeat(np.arange(jobs), np.diff(first))
        return np.array(rates_by_price(weight, job, link, flows, capacity_bps))
    rates, use = np.zeros(jobs), np.zeros(len(link))
    of_links, of_jobs, orders = np.zeros((2, links)), np.zeros((2, jobs)), np.zeros((2, jobs), np.int64)
    given = _addresses(first, link, flows, capacity_bps, weight)
    scratch = _addresses(use, *of_links, *of_jobs, *orders, rates)
    compiled.price_rates(ctypes.byref(Prices(jobs, links, ROUNDS, *given, *scratch)))
    return rates


def link_groups(links_of: Sequence[Ints], links: int) -> list[int]:
    """As arbiters.groups: of each job, the first of its group, from the numbers of the links it crosses."""
    compiled, jobs = library(), len(links_of)
    label = np.zeros(jobs, np.int64)
    if compiled is None:
        for group in groups([Contender("", Bid(0.0), dict.fromkeys(map(str, crossed), 1)) for crossed in links_of]):
            label[group] = group[0]
        return label.tolist()
    if jobs:
        first = np.fromiter(accumulate(map(len, links_of), initial=0), np.int64, jobs + 1)
        link, seen_on = np.concatenate(links_of), np.full(links, -1)
        compiled.link_groups(jobs, *_addresses(first, link, label, seen_on))
    return label.tolist()


def crowd_ceilings(share_bps: Floats, paths: Ints, host: Ints, job: Ints, capacity_bps: Floats) -> Floats:
    """As the first of what borrowing.ceilings returns."""
    compiled, (flows, hops), links = library(), paths.shape, len(capacity_bps)
    if compiled is None:
        return ceilings(share_bps, paths, host, job, capacity_bps)[0]
    owners = 1 + int(max(host.max(), job.max()))
    found, of_links, sums = np.zeros(flows), np.zeros((3, links)), np.zeros((2, flows * hops))
    given = _addresses(share_bps, capacity_bps, paths, host, job)
    following, heads = np.zeros(flows, np.int64), np.zeros(owners, np.int64)
    scratch = _addresses(*of_links, *sums, following, heads, found)
    compiled.borrow(ctypes.byref(Borrowing(flows, hops, links, owners, *given, NEARLY_ALL, *scratch)))
    return found


def _addresses(*arrays: npt.NDArray[np.generic]) -> list[int]:
    assert all(array.flags.c_contiguous for array in arrays)
    return [array.ctypes.data for array in arrays]
