"""What `hostd --check` finds on this host that the file alone does not tell."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostd.conftest import HERE, Wire

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
TOP = 'name = "h0"\nnic_gbps = 1\n'


def checked(path: Path, text: str, wire: Wire | None = None, *more: str) -> tuple[int, list[str]]:
    """Exit status and lines of `hostd --check`, in the namespace `here` of the wire."""
    path.write_text(text)
    command = [sys.executable, "-m", "hostd", "--config", str(path), "--check", *more]
    if wire is None:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr.splitlines()
    with wire.here.enter():
        running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    _, said = running.communicate(timeout=60)
    return running.returncode, said.splitlines()


def test_its_own_address_is_not_among_the_addresses(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "hostd.toml"
    good = checked(path, f'{TOP}[addresses]\nh0 = "{HERE.ip}"', wire)
    assert good == (0, [])
    status, [line] = checked(path, f'{TOP}[addresses]\nh0 = "10.9.9.9"', wire)
    assert status == 0 and line.startswith(
        f"hostd: warning: {path}: addresses.h0: 10.9.9.9 is on no device of this host"
    )
    assert str(HERE.ip) in line
    status, lines = checked(path, f'{TOP}[addresses]\nh0 = "10.9.9.9"\nh1 = "{HERE.ip}"', wire)
    assert status == 0 and lines[-1].endswith(f"addresses.h1: {HERE.ip} is an address of this host, h0")
    star = 'name = "h0"\n[topology]\nkind = "star"\nhosts = 2\nlink_gbps = 1\n[addresses]\nh1 = "10.9.9.9"'
    status, [line] = checked(path, star, wire)
    assert status == 0 and "h0, this host, has none" in line


def test_an_address_twice_is_refused(tmp_path: Path) -> None:
    status, [line] = checked(tmp_path / "hostd.toml", f'{TOP}[addresses]\nh0 = "10.0.0.1"\nh1 = "10.0.0.1"')
    assert status == 2 and "which is h0's already" in line


def test_a_control_that_the_kernel_does_not_have(tmp_path: Path) -> None:
    path, addresses = tmp_path / "hostd.toml", '[addresses]\nh0 = "10.0.0.1"'
    status, [line] = checked(path, f'{TOP}congestion_control = "westwood9"\n{addresses}')
    assert status == 2 and "congestion_control: found 'westwood9', expected one that this kernel has: " in line
    assert checked(path, f'{TOP}congestion_control = "cubic"\n{addresses}')[0] == 0
