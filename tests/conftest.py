"""For all tests: hypothesis profiles, the option that rewrites golden files, no skips on CI."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

# A fork inside a network namespace would have gRPC start its threads again there, for good: they would connect to the
# loopback of a test that has ended. Read when gRPC is imported, which no line above does.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# `fixed` makes a run depend on the code alone, so that a red build means a change and not a roll of the dice;
# `quick` is a glance, for `scripts/test --quick`; `--hypothesis-profile=explore` looks for new counterexamples. No
# deadline: the machine may be busy.
settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-golden",
        action="store_true",
        help="write tests/sim/golden/*.json from what the code does now, instead of comparing with them",
    )
    parser.addoption("--mixes", type=int, default=6, help="random mixes of tests/sim/test_hung_jobs.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mix_number" in metafunc.fixturenames:
        metafunc.parametrize("mix_number", range(metafunc.config.getoption("--mixes")))


def pytest_configure() -> None:
    # A shell starts what runs in the background with SIGINT ignored, and so would be all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On CI a test that cannot run has failed: what needs root, namespaces or torch must find them there."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
    return report


@pytest.fixture
def refresh_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--refresh-golden"))
