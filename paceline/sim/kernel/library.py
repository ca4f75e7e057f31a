"""The compiled library, where there is one: built by pip, or here in a checkout whose source has changed.

`Network` mirrors `struct network` of network.h field by field; a test compares the two.
"""

import ctypes
import logging
from functools import cache

from paceline.sim.kernel.build import LIBRARY, NoCompiler, build, up_to_date

NUMBER, FRACTION, COLUMN = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p

_FIELDS: tuple[tuple[type, str], ...] = (
    (NUMBER, "rows hops"),
    (COLUMN, "size window grain piece sent goal rate firm ceiling stands mark live paced job path"),
    (NUMBER, "links"),
    (COLUMN, "capacity"),
    (NUMBER, "feeds fed_flows"),
    (COLUMN, "upstream first_upstream fed by upstream_grain"),
    (NUMBER, "start_after"),
    (COLUMN, "contention"),
    (NUMBER, "weighted"),
    (FRACTION, "slope intercept"),
    (NUMBER, "fixed_step_ns step_ns_per_flow shortest_step_ns longest_min_step_ns shortest_to_change_ns"),
    (NUMBER, "coarse_step_ns unconverged_step_ns longest_step_ns crowd dependency_rounds htb_rounds"),
    (FRACTION, "caught_up_bytes rounding_bytes converged_part local_bps"),
    (NUMBER, "now_ns change_ns stale converged was_short solved_flows steps flow_steps ended_flows marked_flows"),
    (COLUMN, "solved ended end_ns marked"),
    (COLUMN, "before limits wanted allowed shares base more firm_of may_send highest weights growing members"),
    (COLUMN, "hop pairs"),
    (COLUMN, "filling level carried nic_left on_link active last_job seen"),
    (COLUMN, "slowest"),
)


class Network(ctypes.Structure):
    _fields_ = tuple((name, kind) for kind, names in _FIELDS for name in names.split())


@cache
def library() -> ctypes.CDLL | None:
    """None: there is no compiled library, and none can be built."""
    try:
        if not up_to_date():
            build()
        return _declared(ctypes.CDLL(str(LIBRARY)))
    except (NoCompiler, OSError) as error:
        logging.getLogger(__name__).info("the array engine runs in numpy, several times slower: %s", error)
        return None


def _declared(found: ctypes.CDLL) -> ctypes.CDLL:
    network = ctypes.POINTER(Network)
    for name, result, arguments in (
        ("sending", NUMBER, ()),
        ("run", None, (NUMBER, NUMBER, NUMBER)),
        ("share_links", None, (NUMBER, NUMBER, COLUMN, COLUMN, COLUMN, COLUMN, COLUMN)),
        ("share_nics", None, (NUMBER, COLUMN, COLUMN, COLUMN, COLUMN, COLUMN)),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, (network, *arguments)
    for name in ("price_rates", "borrow", "packing_rows"):
        getattr(found, name).restype, getattr(found, name).argtypes = None, (COLUMN,)
    found.link_groups.restype, found.link_groups.argtypes = None, (NUMBER, COLUMN, COLUMN, COLUMN, COLUMN)
    found.packing_rates.restype, found.packing_rates.argtypes = ctypes.c_int, (COLUMN, COLUMN, COLUMN)
    return found
