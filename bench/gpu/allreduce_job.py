"""All-reduces one after the other, as fast as they go, for net_check to time; it knows nothing of Paceline.

Rank 0 prints {"bytes", "seconds": [from the end of each all-reduce to the end of the next]} at its end.
"""

import argparse
import json
from itertools import pairwise

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(0)
    ones = torch.ones(args.bytes // 4, dtype=torch.float32, device="cuda")
    dist.all_reduce(ones)  # connects; each element is 2 now
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(args.count)]
    for end in ends:
        dist.all_reduce(ones, op=dist.ReduceOp.MAX)
        end.record()
    torch.cuda.synchronize()
    if not bool((ones == 2).all()):
        raise SystemExit("the all-reduces have changed what they were to leave")
    if dist.get_rank() == 0:
        seconds = [begin.elapsed_time(end) / 1e3 for begin, end in pairwise(ends)]
        print(json.dumps({"bytes": args.bytes, "seconds": seconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
