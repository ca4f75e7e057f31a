"""A host's configuration: every key is read, and every wrong one is named in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostd.config import MAX_CONFIG_BYTES, RUNTIME_DIRECTORY, parse_config, read_config
from hostd.monitor.jobs_without_shim import JobWithoutShim
from paceline.flowcore.model.fields import InputError

DEPLOY = Path(__file__).parents[2] / "deploy"
ALONE = 'name = "h0"\nnic_gbps = 10\n'
ADDRESSES = '[addresses]\nh0 = "10.0.1.10"\nh1 = ["10.0.1.11", "fd00::11"]\n'
STAR = '[topology]\nkind = "star"\nhosts = 2\nlink_gbps = 10\n'


def parsed(top: str = "", tables: str = ADDRESSES):
    return parse_config(ALONE + top + tables, "hostd.toml")


def test_a_host_on_its_own_needs_a_name_a_speed_and_addresses() -> None:
    config = parsed()
    assert (config.name, config.nic_bps, config.switch, config.mode) == ("h0", 10e9, None, "observe")
    assert config.host_of == {"10.0.1.10": "h0", "10.0.1.11": "h1", "fd00::11": "h1"}
    assert config.control_socket == RUNTIME_DIRECTORY / "control.sock"
    assert config.jobs is None and config.backend == "auto" and not config.takeover


def test_its_own_addresses_and_what_the_command_line_says_instead(tmp_path: Path) -> None:
    path = tmp_path / "hostd.toml"
    path.write_text(ALONE + 'backend = "htb"\n' + ADDRESSES)
    assert read_config(path).enforcement.addresses == {"10.0.1.10"}
    config = read_config(path, backend="pacing", takeover=True)
    assert (config.backend, config.takeover, config.nic_bps) == ("pacing", True, 10e9)


def test_every_key_has_a_place() -> None:
    config = parse_config(
        """
name = "h0"
switch = "127.0.0.1:7470"
policy = "mlcc"
mode = "enforce"
backend = "pacing"
jobs = ["bert", "alice/llama"]
shim_directory = "/dev/shm/elsewhere"
runtime_directory = "/run/elsewhere"
takeover = true
small_tso_bursts = true
congestion_control = "bbr"
metrics = "0.0.0.0:9465"
plaintext = true
[slots]
length_ms = 20
horizon = 5
[tls]
ca = "ca.crt"
certificate = "h0.crt"
key = "h0.key"
[tenants]
team = [1000, 70001]
[[without_shim]]
job = "old"
command = "*old_train.py*"
[[without_shim]]
job = "older"
cgroup = "/system.slice/*"
"""
        + STAR
        + ADDRESSES,
        "hostd.toml",
    )
    assert (config.switch, config.switch_name, config.policy) == ("127.0.0.1:7470", "sw", "mlcc")
    assert (config.mode, config.backend, config.jobs) == ("enforce", "pacing", ("bert", "alice/llama"))
    assert (config.slots.length_ms, config.slots.horizon) == (20, 5)
    assert config.takeover and config.small_tso_bursts and config.plaintext
    assert (config.congestion_control, config.metrics) == ("bbr", "0.0.0.0:9465")
    assert config.tls is not None and config.tls.key == Path("h0.key")
    assert config.shim_directory == Path("/dev/shm/elsewhere")
    assert config.without_shim == (
        JobWithoutShim("old", "*old_train.py*"),
        JobWithoutShim("older", cgroup="/system.slice/*"),
    )
    assert config.tenants == {1000: "team", 70001: "team"}
    assert config.enforcement.undo_log_path == Path("/run/elsewhere/lease.json")


@pytest.mark.parametrize(
    ("old", "new", "value"), [("small_bundles", "small_tso_bursts", "true"), ("retransmit_ms", "min_rto_ms", "20")]
)
def test_a_renamed_key_works_under_both_names_and_the_old_one_warns(
    old: str, new: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    renamed = parsed(f"{new} = {value}\n")
    assert renamed.enforcement != parsed("").enforcement
    assert caplog.messages == []
    assert parsed(f"{old} = {value}\n") == renamed
    assert caplog.messages == [f"hostd.toml: {old} is deprecated: use {new}"]
    with pytest.raises(InputError, match=f"{old}: found a second name of '{new}'"):
        parsed(f"{old} = {value}\n{new} = {value}\n")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('policy = "tcp"', "policy"),
        ('objective = "speed"', "objective"),
        ('mode = "force"', "mode"),
        ("mode = 1", "mode"),
        ('backend = "tbf"', "backend"),
        ('jobs = ["a", "a"]', "jobs"),
        ('jobs = "a"', "jobs"),
        ('switch = "nowhere"', "switch"),
        ('metrics = ":port"', "metrics"),
        ('shim_directory = "relative"', "shim_directory"),
        ("runtime_directory = 3", "runtime_directory"),
        ("takeover = 1", "takeover"),
        ('small_tso_bursts = "yes"', "small_tso_bursts"),
        ('small_bundles = "yes"', "small_tso_bursts"),
        ("congestion_control = 7", "congestion_control"),
        ("plaintext = 0", "plaintext"),
        ("slots = { length_ms = 0.1 }", "slots.length_ms"),
        ("slots = { length = 60 }", "slots"),
        ('tls = { ca = "a" }', "tls"),
        ("tls = 1", "tls"),
        ("colour = 1", "colour"),
        ("without_shim = 1", "without_shim"),
        ('without_shim = [{ job = "a" }]', "without_shim[0]"),
        ('without_shim = [{ job = "a", pid = 0 }]', "without_shim[0].pid"),
        ('without_shim = [{ job = "a", command = "*" }]', "without_shim[0].command"),
        ('without_shim = [{ job = "a", command = "train*", pid = 7 }]', "without_shim[0]"),
        ('without_shim = [{ command = "train*" }]', "without_shim[0].job"),
    ],
)
def test_a_wrong_value_is_named(line: str, key: str) -> None:
    with pytest.raises(InputError) as refused:
        parsed(line + "\n")
    said = str(refused.value)
    assert said.startswith("hostd.toml: ") and key in said and "\n" not in said


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("nic_gbps = 1\n" + ADDRESSES, "name"),
        ('name = "h0"\n' + ADDRESSES, "topology"),
        ('name = "h0"\nnic_gbps = 1\n', "addresses"),
        ('name = "h9"\nnic_gbps = 1\n' + ADDRESSES, "name"),
        ('name = "h0"\nnic_gbps = 0\n' + ADDRESSES, "nic_gbps"),
        ('name = "h0"\nswitch = "127.0.0.1:1"\nnic_gbps = 1\n' + ADDRESSES, "topology"),
        ('name = "h0"\nswitch = "10.0.0.1:1"\n' + STAR + ADDRESSES, "without TLS"),
        ('name = "h0"\n' + STAR + ADDRESSES + 'h7 = "10.0.0.7"', "addresses.h7"),
        ('name = "h0"\nnic_gbps = 1\n[addresses]\nh0 = "ten"', "addresses.h0"),
        ('name = "h0"\nnic_gbps = 1\n[addresses]\nh0 = 10', "addresses.h0"),
    ],
)
def test_what_does_not_fit_together_is_named(text: str, key: str) -> None:
    with pytest.raises(InputError, match=key):
        parse_config(text, "hostd.toml")


def test_the_example_is_read(tmp_path: Path) -> None:
    config = read_config(DEPLOY / "hostd.toml")
    assert config.name == "h0" and config.mode == "observe" and config.tls is not None
    assert config.runtime_directory == RUNTIME_DIRECTORY


def test_no_text_and_too_much_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "hostd.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="no UTF-8"):
        read_config(path)
    path.write_bytes(b"#" * (MAX_CONFIG_BYTES + 1))
    with pytest.raises(InputError, match="more than a megabyte"):
        read_config(path)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_config(text, "hostd.toml")
    except InputError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ('h0 = "10.0.1.10"\nh1 = "10.0.1.10"', "addresses.h1: found 10.0.1.10, which is h0's already"),
        ('h0 = ["10.0.1.10", "10.0.1.10"]', "addresses.h0: found 10.0.1.10, which is h0's already"),
        ('h0 = "fd00::1"\nh1 = ["10.0.1.10", "fd00:0::0001"]', "addresses.h1: found fd00::1, which is h0's already"),
    ],
)
def test_an_address_that_stands_there_twice_is_refused(addresses: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parsed(tables=f"[addresses]\n{addresses}\n")
    assert said in str(refused.value) and str(refused.value).endswith("expected every address once")
