"""The testbed is the package `bench`, which a checkout has and the wheel has not.

Commands import it where they run. Where it is missing that raises ModuleNotFoundError, which paceline/cli.py turns into
one line; another package or file that happens to be called `bench` is as good as none.
"""

from pathlib import Path

NEEDED = "this command needs the testbed, which only a checkout has: clone Paceline, run ./scripts/setup"
CHECKOUT = Path(__file__).parents[2]


def is_missing(error: ModuleNotFoundError) -> bool:
    """Whether the module that was not found belongs to the testbed, and not to something broken in a checkout."""
    name = error.name or ""
    return name == "bench" or (name.startswith("bench.") and not (CHECKOUT / "bench" / "testbed").is_dir())
