"""Wrong inputs, as people make them: one line that says what was expected, exit status 2, and nothing started."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import hostd.__main__
import switchd.__main__
from paceline import cli
from paceline.service import logs

STAR = '[topology]\nkind = "star"\nhosts = 2\nlink_gbps = 1\n'
HOST = 'name = "h0"\nnic_gbps = 1\n{}[addresses]\nh0 = "10.0.0.1"\n'
SWITCH = 'name = "sw"\nlisten = "127.0.0.1:0"\n{}' + STAR
SCENARIO = "scenarios/two-jobs.toml"

# Of the command `paceline`.
COMMANDS = [
    ("statsu", "invalid choice"),
    ("", "COMMAND"),
    ("status --runtime-directory /no/such/place", "is it running?"),
    ("status --jsno", "unrecognized arguments"),
    ("explain", "required: flow"),
    ("explain a --runtime-directory /no", "is it running?"),
    ("release", "--all"),
    ("release a --all", "not allowed with"),
    ("release a --runtime-directory /no/such/place", "is it running?"),
    ("top --runtime-directory /dev/null", "is it running?"),
    ("switch", "COMMAND"),
    ("switch top --address 10.0.0.1", "expected HOST:PORT"),
    ("switch top --address 10.0.0.1:70000", "expected HOST:PORT"),
    ("switch top --address 127.0.0.1:1", "no switch listens"),
    ("switch top --every 0", "expected an integer from 1"),
    ("switch top --ca /no --address 127.0.0.1:1", "TLS needs all of"),
    ("switch top --ca /no --certificate /no --key /no", "No such file or directory"),
    ("switch top --scenario /bin/ls --switch sw", "/bin/ls"),
    (f"switch top --scenario {SCENARIO}", "--switch NAME"),
    (f"switch top --scenario {SCENARIO} --switch sw9", "a switch of it"),
    ("certs issue /no/such/place h0", "paceline certs init"),
    ("certs issue {place} ../h0", "letters, digits, dots"),
    ("certs issue {place} ca", "letters, digits, dots"),
    ("certs init {place} --days 0", "expected an integer from 1"),
    ("certs init /proc/none", "/proc/none"),
    ("certs issue-all /no/such/place /no/such/file", "No such file"),
    ("certs show", "DIR"),
    ("sim run /no/such/file --policy fair", "No such file"),
    (f"sim run {SCENARIO} --policy fare", "did you mean 'fair'?"),
    (f"sim run {SCENARIO} --policy fair --seed -1", "expected an integer from 0"),
    ("sim run /bin/ls --policy fair", "/bin/ls"),
    ("sim run / --policy fair", "Is a directory"),
    ("sim compare /bin/ls", "found something else"),
]

# Of a configuration: the program, what stands in its file, and more arguments.
CONFIGURATIONS: list[tuple[str, str, tuple[str, ...], str]] = [
    ("hostd", HOST.format('mode = "enforced"\n'), (), "mode: found 'enforced'"),
    ("hostd", HOST.format("nic_gbp = 1\n"), (), "'nic_gbps', the nearest known key"),
    ("hostd", HOST.format('switch = "10.0.0.9"\n'), (), "switch: found '10.0.0.9', expected HOST:PORT"),
    ("hostd", HOST.format('metrics = "9465"\n'), (), "metrics: found '9465'"),
    ("hostd", HOST.format('jobs = "bert"\n'), (), "jobs: found 'bert'"),
    ("hostd", HOST.format('jobs = ["a", "a"]\n'), (), "jobs"),
    ("hostd", HOST.format('shim_directory = "shm"\n'), (), "an absolute path"),
    ("hostd", HOST.format("min_rto_ms = 0\n"), (), "min_rto_ms"),
    ("hostd", HOST.format('takeover = "yes"\n'), (), "true or false"),
    ("hostd", HOST.format('[[without_shim]]\njob = "a"\n'), (), "one of command, cgroup and pid"),
    ("hostd", HOST.format('congestion_control = "qubic"\n'), (), "one that this kernel has"),
    ("hostd", HOST.format('background = "first"\n'), (), '"fair" or "yield" or "training-first"'),
    ("hostd", HOST.format("") + "h1 = 10\n", (), "an IP address"),
    ("hostd", HOST.format("") + 'h1 = "10.0.0.256"\n', (), "an IP address"),
    ("hostd", HOST.format("") + 'h1 = "10.0.0.1"\n', (), "which is h0's already"),
    ("hostd", HOST.format('[tls]\nca = "/no"\ncertificate = "/no"\nkey = "/no"\n'), (), "/no: No such file"),
    ("hostd", HOST.format('[tls]\nca = "/no"\n'), (), "tls.certificate: found nothing"),
    ("hostd", HOST.format(""), ("--backend", "tbf"), "invalid choice: 'tbf'"),
    ("switchd", SWITCH.format('policy = "best"\n'), (), "policy: found 'best'"),
    ("switchd", SWITCH.format("").replace('"sw"', '"tor0"'), (), "a switch of the topology: sw"),
    ("switchd", SWITCH.format("").replace("127.0.0.1:0", "10.0.0.1:7470"), (), "without TLS"),
    ("switchd", SWITCH.format("") + '[parents]\nup = "127.0.0.1:1"\n', (), "no parents: this is the top"),
    ("switchd", SWITCH.format("max_flows_per_host = 0\n"), (), "max_flows_per_host"),
    ("switchd", SWITCH.format("") + '[tls]\nca = "/no"\ncertificate = "/no"\nkey = "/no"\n', (), "/no: No such file"),
    ("switchd", "\0", (), "no TOML"),
    ("switchd", SWITCH.format(""), ("--base-port", "0"), "expected 1 to 65000"),
    ("switchd", SWITCH.format(""), ("--scenario", SCENARIO), "not allowed with"),
]
MAINS: dict[str, Callable[[Sequence[str]], int]] = {"hostd": hostd.__main__.main, "switchd": switchd.__main__.main}


def refused(main: Callable[[Sequence[str]], int], arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line."""
    try:
        status = main(arguments)
    except SystemExit as end:  # as argparse ends a program
        status = int(end.code or 0)
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if " warning: " not in line]
    assert (status, out, len(lines)) == (2, "", 1), (status, out, err)
    assert len(lines[0]) < 600 and lines[0].isprintable()
    return lines[0]


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[command or "nothing" for command, _ in COMMANDS])
def test_commands(command: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["certs", "init", str(tmp_path / "certs")])
    capsys.readouterr()
    arguments = command.format(place=tmp_path / "certs").split()
    line = refused(cli.main, arguments, capsys)
    assert line.startswith("paceline: ") and said in line


@pytest.mark.parametrize(("program", "text", "more", "said"), CONFIGURATIONS)
def test_configurations(
    program: str, text: str, more: tuple[str, ...], said: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By --check, and at the start: systemd must not try again."""
    monkeypatch.setattr(logs, "setup", lambda *arguments: None)
    path = tmp_path / "config.toml"
    path.write_text(text)
    for check in (("--check",), ()):
        line = refused(MAINS[program], ["--config", str(path), *more, *check], capsys)
        assert line.startswith(f"{program}: ") and said in line


def test_there_are_enough_of_them() -> None:
    assert len(COMMANDS) + len(CONFIGURATIONS) >= 11 + 30, "those of the first try, and 30 more"
