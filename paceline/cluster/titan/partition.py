"""Workers over machines of given room so that little crosses between them.

Start: each machine in turn takes a worker and then the worker that exchanges most with those it has, so that the heavy
partners of a collective end up together. Then single workers move and pairs swap while that lowers the traffic
(Kernighan and Lin's idea without their look-ahead). Two starts are tried: machines filled to the brim, and to a power
of two, which is how halving-doubling divides evenly.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from paceline.cluster.collectives import Pair

NEGLIGIBLE = 1e-9  # of the whole traffic; rounding must not keep the search going
MOST_PASSES = 20
MOST_TRIED = 400  # changes, to repair one division; mostly none would help


def partition(workers: int, room: Sequence[int], traffic: Mapping[Pair, float]) -> list[int]:
    """The machine (its place in `room`) of each worker. There must be room for all."""
    partners_of: list[dict[int, float]] = [{} for _ in range(workers)]
    for (one, other), size_bytes in traffic.items():
        partners_of[one][other] = partners_of[other][one] = partners_of[one].get(other, 0.0) + size_bytes
    starts = [[min(size, workers) for size in room], [_power_of_two(min(size, workers)) for size in room]]
    found = [_improved(_grown(sizes, room, partners_of), room, partners_of) for sizes in starts]
    return min(found, key=lambda machine_of: _crossing(machine_of, partners_of))


def _power_of_two(size: int) -> int:
    return 1 << (size.bit_length() - 1) if size else 0


def _grown(sizes: Sequence[int], room: Sequence[int], partners_of: list[dict[int, float]]) -> list[int]:
    """Up to `sizes` on each machine, then the rest wherever there is room."""
    machine_of = [-1] * len(partners_of)
    unplaced = dict.fromkeys(range(len(partners_of)))
    for wanted in (sizes, room):
        for machine, size in enumerate(wanted):
            pull = dict.fromkeys(unplaced, 0.0)
            here = [worker for worker, place in enumerate(machine_of) if place == machine]
            for worker in here:
                _attract(pull, partners_of[worker])
            for _ in range(min(size - len(here), len(unplaced))):
                chosen = max(pull, key=pull.__getitem__)
                machine_of[chosen] = machine
                del pull[chosen], unplaced[chosen]
                _attract(pull, partners_of[chosen])
    return machine_of


def _attract(pull: dict[int, float], partners: Mapping[int, float]) -> None:
    for partner, size_bytes in partners.items():
        if partner in pull:
            pull[partner] += size_bytes


def _improved(machine_of: list[int], room: Sequence[int], partners_of: list[dict[int, float]]) -> list[int]:
    """Moves and swaps that lower the traffic, until there are none."""
    left = list(room)
    for machine in machine_of:
        left[machine] -= 1
    near = [[0.0] * len(room) for _ in machine_of]  # what a worker exchanges with each machine
    for worker, partners in enumerate(partners_of):
        for partner, size_bytes in partners.items():
            near[worker][machine_of[partner]] += size_bytes
    least = NEGLIGIBLE * sum(map(sum, near))

    def go(worker: int, target: int) -> None:
        source = machine_of[worker]
        left[source] += 1
        left[target] -= 1
        machine_of[worker] = target
        for partner, size_bytes in partners_of[worker].items():
            near[partner][source] -= size_bytes
            near[partner][target] += size_bytes

    for _ in range(MOST_PASSES):
        improved = False
        for one in range(len(machine_of)):
            for target in range(len(room)):
                gain = near[one][target] - near[one][machine_of[one]]
                if left[target] and target != machine_of[one] and gain > least:
                    go(one, target)
                    improved = True
            for other in range(one + 1, len(machine_of)):
                here, there = machine_of[one], machine_of[other]
                if here != there:
                    gain = near[one][there] - near[one][here] + near[other][here] - near[other][there]
                    if gain - 2 * partners_of[one].get(other, 0.0) > least:
                        go(one, there)
                        go(other, here)
                        improved = True
        if not improved:
            break
    return machine_of


def _crossing(machine_of: list[int], partners_of: list[dict[int, float]]) -> float:
    return sum(
        size_bytes
        for worker, partners in enumerate(partners_of)
        for partner, size_bytes in partners.items()
        if machine_of[worker] != machine_of[partner]
    )


def repaired(machine_of: list[int], room: Sequence[int], excess: Callable[[list[int]], float]) -> list[int]:
    """Moves and swaps that lower what exceeds the limits, until nothing does, nothing helps, or MOST_TRIED are."""
    now, tried = excess(machine_of), 0
    better: list[int] | None = machine_of
    while now > 0.0 and better is not None:
        machine_of, better = better, None
        for changed in _neighbours(machine_of, room):
            tried += 1
            if tried > MOST_TRIED:
                return machine_of
            if (then := excess(changed)) < now:
                better, now = changed, then
                break
    return better or machine_of


def _neighbours(machine_of: list[int], room: Sequence[int]) -> Iterator[list[int]]:
    for one, here in enumerate(machine_of):
        for target in range(len(room)):
            if target != here and machine_of.count(target) < room[target]:
                yield [*machine_of[:one], target, *machine_of[one + 1 :]]
        for other in range(one + 1, len(machine_of)):
            if machine_of[other] != here:
                swapped = list(machine_of)
                swapped[one], swapped[other] = swapped[other], here
                yield swapped
