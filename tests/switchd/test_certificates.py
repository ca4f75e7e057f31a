"""switchd and hostd as an operator starts them: certificates that are no good, and new ones while they run."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from bench.micro.switch_processes import free_ports
from paceline.commands import authority
from tests.switchd.processes import run

pytestmark = pytest.mark.slow

NOW = authority.utc_now()
TOPOLOGY = '[topology]\nkind = "star"\nhosts = 2\nlink_gbps = 1\n'
SETTLED_S = 20.0


class Daemons:
    """A switch `sw` and a host `h0`, with TLS over loopback."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self.place, self._stack = place, stack
        authority.init(place / "ours", days=100, force=False, now=NOW - timedelta(days=50))
        authority.init(place / "theirs", days=100, force=False, now=NOW - timedelta(days=50))
        [port] = free_ports(1)
        tls = '[tls]\nca = "{place}/{who}/ca.crt"\ncertificate = "{place}/{who}/{who}.crt"\n'
        tls += 'key = "{place}/{who}/{who}.key"\n'
        switch = f'name = "sw"\nlisten = "127.0.0.1:{port}"\n{TOPOLOGY}'
        host = f'name = "h0"\nswitch = "127.0.0.1:{port}"\nruntime_directory = "{place}/run"\n'
        host += f'shim_directory = "{place}/shm"\n{TOPOLOGY}[addresses]\nh0 = "127.0.0.1"\n'
        for who, text in (("sw", switch), ("h0", host)):
            (place / who).mkdir()
            self.give(who)
            (place / f"{who}.toml").write_text(text + tls.format(place=place, who=who))

    def give(self, who: str, ca: str = "ours", name: str | None = None, days_ago: int = 0) -> None:
        """The files of a daemon, anew."""
        made = authority.issue(self.place / ca, name or who, (), days=2, force=True, now=NOW - timedelta(days=days_ago))
        (self.place / who / "ca.crt").write_bytes((self.place / "ours" / "ca.crt").read_bytes())
        for path, suffix in ((made.certificate, "crt"), (made.key, "key")):
            copy = self.place / who / f"{who}.{suffix}"
            copy.write_bytes(path.read_bytes())
            copy.chmod(0o600)

    def trust_theirs(self, who: str) -> None:
        (self.place / who / "ca.crt").write_bytes((self.place / "theirs" / "ca.crt").read_bytes())

    def start(self, who: str, *more: str) -> "subprocess.Popen[str]":
        program = "switchd" if who == "sw" else "hostd"
        with (self.place / f"{who}.log").open("w") as log:
            arguments = ("--config", str(self.place / f"{who}.toml"), *more)
            process = run(program, *arguments, stderr=log, stdout=subprocess.DEVNULL)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def log(self, who: str) -> str:
        return (self.place / f"{who}.log").read_text()

    def heard(self, who: str, text: str) -> str:
        end_s = time.monotonic() + SETTLED_S
        while text not in self.log(who):
            assert time.monotonic() < end_s, self.log(who)
            time.sleep(0.02)
        return self.log(who)


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    with ExitStack() as stack:
        yield Daemons(tmp_path, stack)


Spoil = Callable[[Daemons, str], None]


@pytest.mark.parametrize("who", ["h0", "sw"])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda it, who: it.give(who, days_ago=9), "found expired on"),
        (lambda it, who: it.give(who, ca="theirs"), "issuer: found refused"),
        (lambda it, who: it.give(who, name="h7"), "names: found h7, expected"),
        (lambda it, who: (it.place / who / "ca.crt").unlink(), "No such file or directory"),
        (lambda it, who: (it.place / who / f"{who}.key").chmod(0o644), "chmod 600"),
    ],
)
def test_what_is_no_good_is_refused_by_check_and_at_the_start(
    daemons: Daemons, who: str, spoil: Spoil, said: str
) -> None:
    assert daemons.start(who, "--check").wait(60) == 0, daemons.log(who)
    spoil(daemons, who)
    for more in (("--check",), ()):
        assert daemons.start(who, *more).wait(60) == 2, "systemd must not try again"
        [line] = [line for line in daemons.log(who).splitlines() if "warning" not in line]
        assert said in line and "Traceback" not in line


def test_new_certificates_while_they_run(daemons: Daemons) -> None:
    """The host's CA is another: refused, said, and asked less often; a reload of the switch and it is taken in."""
    switch = daemons.start("sw")
    daemons.heard("sw", "listening")
    daemons.give("h0", ca="theirs")
    daemons.trust_theirs("h0")
    host = daemons.start("h0")
    said = daemons.heard("h0", "no stream to the switch")
    assert "the certificate of sw is refused here: unable to get local issuer certificate" in said
    daemons.heard("sw", "refused a peer: certificate: a handshake failed: ")
    time.sleep(2.0)
    assert daemons.log("h0").count("no stream to the switch") == 1
    assert len(daemons.log("sw").splitlines()) <= 3, "nothing of gRPC's own, and no line for every handshake"
    daemons.give("sw", ca="theirs")
    daemons.trust_theirs("sw")
    switch.send_signal(signal.SIGHUP)
    daemons.heard("sw", "certificates read anew")
    daemons.heard("h0", "taken in by sw")
    daemons.give("h0", days_ago=9)
    host.send_signal(signal.SIGHUP)
    assert "expired on" in daemons.heard("h0", "the reload was refused")
    daemons.give("sw", name="h7")
    switch.send_signal(signal.SIGHUP)
    assert "names: found h7" in daemons.heard("sw", "the reload was refused")


def test_both_ends_say_that_a_hosts_certificate_is_refused(daemons: Daemons) -> None:
    """It is the host's own CA alone: its certificate, not the switch's, is refused."""
    daemons.start("sw")
    daemons.heard("sw", "listening")
    daemons.give("h0", ca="theirs")
    both = (daemons.place / "theirs" / "ca.crt").read_bytes() + (daemons.place / "ours" / "ca.crt").read_bytes()
    (daemons.place / "h0" / "ca.crt").write_bytes(both)
    daemons.start("h0")
    assert "sw refuses this end's certificate" in daemons.heard("h0", "no stream to the switch")
    daemons.heard("sw", "a handshake failed: unable to get local issuer certificate")


def test_a_host_gets_new_certificates_by_a_reload(daemons: Daemons) -> None:
    daemons.give("sw", ca="theirs")
    daemons.trust_theirs("sw")
    daemons.start("sw")
    daemons.heard("sw", "listening")
    host = daemons.start("h0")
    daemons.heard("h0", "no stream to the switch")
    daemons.give("h0", ca="theirs")
    daemons.trust_theirs("h0")
    host.send_signal(signal.SIGHUP)
    daemons.heard("h0", "taken in by sw")
    host.send_signal(signal.SIGTERM)
    assert host.wait(20) == 0
    assert "deciding alone" not in daemons.log("h0").partition("taken in by sw")[2], "an orderly stop is no loss"
