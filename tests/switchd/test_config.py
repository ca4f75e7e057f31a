"""A wrong configuration is one line and status 2; what the machine refuses is one line and status 1."""

import logging
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.micro.switch_processes import free_ports
from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.topology import tree
from switchd.__main__ import main
from switchd.config import loopback_address, of_scenario, parse_config
from tests.switchd.processes import ROOT, run

GOOD = """
name = "tor0"
listen = "127.0.0.1:7470"
policy = "paceline"
metrics = "127.0.0.1:9465"

[slots]
length_ms = 60
horizon = 10

[topology]
kind = "tree"
servers_per_tor = 2
tors_per_edge = 2
edges = 2
link_gbps = [1.0, 2.0, 4.0]

[parents]
edge0 = "127.0.0.1:7474"
"""


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A daemon takes over all of its process's logs; this process has more tests to run."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    logging.captureWarnings(False)
    root.setLevel(level)
    root.handlers[:] = handlers


def test_a_good_one() -> None:
    config = parse_config(GOOD, "tor0.toml")
    assert config.topology == tree(2, 2, 2, (1.0, 2.0, 4.0))
    assert (config.name, config.listen, config.metrics) == ("tor0", "127.0.0.1:7470", "127.0.0.1:9465")
    assert config.parents == {"edge0": "127.0.0.1:7474"}
    assert (config.slots.length_ms, config.slots.horizon, config.policy) == (60.0, 10, "paceline")


def test_the_objective_is_part_of_the_policys_name() -> None:
    """Which hosts and switches compare when they meet."""
    for objective, policy in (("slowdown", "paceline"), ("jct", "paceline:jct")):
        assert parse_config(f'objective = "{objective}"' + GOOD, "tor0.toml").policy == policy


def test_the_example_in_deploy() -> None:
    text = (ROOT / "deploy" / "switchd.toml").read_text()
    config = parse_config(text, "deploy/switchd.toml")
    assert config.tls is not None
    assert config.parents.keys() == {"edge0"}


BAD = {
    "no TOML": ("name = ", "the file: found no TOML"),
    "unknown key": (GOOD.replace("policy", "polcy"), "polcy: found an unknown key, expected 'policy'"),
    "no name": (GOOD.replace('name = "tor0"', ""), "name: found nothing"),
    "a number for a name": (GOOD.replace('"tor0"', "7"), "name: found 7"),
    "no such switch": (GOOD.replace('"tor0"', '"tor9"'), "name: found 'tor9', expected a switch of the topology:"),
    "a host's name": (GOOD.replace('"tor0"', '"h0"'), "name: found 'h0'"),
    "no listen": (GOOD.replace('listen = "127.0.0.1:7470"', ""), "listen: found nothing"),
    "listen without port": (GOOD.replace("127.0.0.1:7470", "127.0.0.1"), "listen: found '127.0.0.1', expected HOST"),
    "listen with a huge port": (GOOD.replace("7470", "74700"), "listen: found '127.0.0.1:74700'"),
    "policy": (GOOD.replace('"paceline"', '"tcp"'), "policy: found 'tcp'"),
    "objective": ('objective = "speed"' + GOOD, "objective: found 'speed'"),
    "objective without a choice": (
        'objective = "jct"' + GOOD.replace('"paceline"', '"mlcc"'),
        "objective: found 'jct', expected nothing, or policy = 'paceline': mlcc has no choice of one",
    ),
    "metrics": (GOOD.replace("127.0.0.1:9465", "x"), "metrics: found 'x'"),
    "slots": (GOOD.replace("length_ms = 60", "length_ms = 0"), "slots.length_ms: found 0"),
    "horizon": (GOOD.replace("horizon = 10", "horizon = -1"), "slots.horizon: found -1"),
    "no topology": (GOOD[: GOOD.index("[topology]")], "topology: found nothing"),
    "topology kind": (GOOD.replace('"tree"', '"ring"'), "topology.kind: found 'ring'"),
    "link rates": (GOOD.replace("[1.0, 2.0, 4.0]", "[1.0]"), "topology.link_gbps: found a list of 1"),
    "no parents": (GOOD[: GOOD.index("[parents]")], "parents: found nothing, expected the address of each of edge0"),
    "wrong parents": (GOOD.replace("edge0 =", "edge1 ="), "parents: found a table, expected the address of each"),
    "parent's address": (GOOD.replace("127.0.0.1:7474", "edge0"), "parents.edge0: found 'edge0'"),
    "top with a parent": (GOOD.replace('"tor0"', '"agg"'), "parents: found a table, expected no parents"),
    "plaintext": ("plaintext = 1" + GOOD, "plaintext: found 1, expected true or false"),
    "flows": ("max_flows_per_host = 0" + GOOD, "max_flows_per_host: found 0"),
    "weight": ("max_weight = 100" + GOOD, "max_weight: found 100"),
    "background": ('background = "first"' + GOOD, "background: found 'first', expected \"fair\" or "),
    "tls": (GOOD + "[tls]\nca = 'x'\n", "tls.certificate: found nothing"),
    "plaintext beyond loopback": (
        GOOD.replace("127.0.0.1:7470", "10.0.0.1:7470"),
        "listen: found '10.0.0.1:7470' without TLS, expected a [tls] table, a loopback address, or plaintext = true",
    ),
    "plaintext parent": (GOOD.replace("127.0.0.1:7474", "10.0.0.2:7474"), "parents.edge0: found '10.0.0.2:7474'"),
}


@pytest.mark.parametrize("which", BAD)
def test_a_wrong_key_is_one_line(which: str, tmp_path: Path, capsys) -> None:
    text, said = BAD[which]
    file = tmp_path / "bad.toml"
    file.write_text(text)
    assert main(["--config", str(file)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"switchd: {file}: {said}")


def test_an_operator_may_insist_on_plaintext() -> None:
    text = "plaintext = true" + GOOD.replace("127.0.0.1", "10.0.0.1")
    assert parse_config(text, "x").listen == "10.0.0.1:7470"


def test_files_that_are_none(tmp_path: Path, capsys) -> None:
    (tmp_path / "latin1.toml").write_bytes(b'name = "\xe9"')
    for name in ("missing.toml", "latin1.toml"):
        assert main(["--config", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_scenario_is_a_cluster_on_this_machine() -> None:
    path = ROOT / "scenarios" / "tree.toml"
    config = of_scenario(path, path.read_text(), "tor0", "mlcc", 9000)
    topology = config.topology
    assert config.listen == loopback_address(topology, "tor0", 9000) == "127.0.0.1:9000"
    [parent] = topology.parents["tor0"]
    assert config.parents == {parent: loopback_address(topology, parent, 9000)}
    with pytest.raises(InputError, match=r"--switch: found 'x', expected a switch of it: tor0"):
        of_scenario(path, path.read_text(), "x", "mlcc")


# ---- As a process ----


def star_config(port: int, metrics_port: int) -> str:
    lines = ['name = "sw"', f'listen = "127.0.0.1:{port}"', f'metrics = "127.0.0.1:{metrics_port}"']
    return "\n".join([*lines, "[topology]", 'kind = "star"', "hosts = 2", "link_gbps = 1.0"])


def test_from_start_to_sigterm(tmp_path: Path) -> None:
    """Ready for systemd, metrics while it runs, and a drained end with status 0."""
    port, metrics_port = free_ports(2)
    file = tmp_path / "sw.toml"
    file.write_text(star_config(port, metrics_port))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        daemon = run("switchd", "--config", str(file), "--log-json", env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        try:
            assert systemd.recv(100).startswith(b"READY=1")
            text = urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=20).read().decode()
            assert "paceline_switch_hosts 0.0" in text
            assert urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/healthz", timeout=20).read() == b"alive\n"
            second = run("switchd", "--config", str(file))
            out, err = second.communicate(timeout=60)
            assert (second.returncode, out, err.count("\n")) == (1, "", 1)
            assert err == f"switchd: cannot listen on 127.0.0.1:{port}: the port is taken or not allowed\n"
            daemon.send_signal(signal.SIGTERM)
            assert systemd.recv(100).startswith(b"STOPPING=1")
            out, err = daemon.communicate(timeout=60)
            assert (daemon.returncode, out) == (0, "")
            assert "Traceback" not in err
        finally:
            daemon.kill()
            daemon.communicate()


def test_help_has_examples(capsys) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    assert "switchd --scenario" in capsys.readouterr().out
