"""`paceline certs`, from an empty directory to files that daemons can use."""

import json
import os
import re
import stat
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from paceline import cli
from paceline.commands import authority
from paceline.commands.arguments import CommandError
from paceline.service.tls import TlsFiles


def certs(*arguments: object) -> int:
    return cli.main(["certs", *map(str, arguments)])


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    capsys.readouterr()
    assert certs(*arguments, "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert certs(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    assert certs("init", tmp_path / "certs") == 0
    return tmp_path / "certs"


def test_round_trip(directory: Path, capsys) -> None:
    made = answer(capsys, "issue", directory, "sw", "--address", "10.0.0.1", "--address", "sw.example.org")
    assert made["addresses"] == ["10.0.0.1", "sw.example.org"]
    TlsFiles(directory / "ca.crt", Path(made["certificate"]), Path(made["key"])).server_credentials()
    ca, switch = answer(capsys, "show", directory)["certificates"]
    assert (ca["name"], ca["trusted"]) == ("ca", True)
    assert ca["days_left"] in (3649, 3650)  # the second may have ended since
    assert switch.pop("days_left") in (364, 365)
    assert switch == made


def test_the_text(directory: Path, capsys) -> None:
    assert certs("issue", directory, "h0") == 0
    assert certs("show", directory) == 0
    shown = capsys.readouterr().out
    assert f"made {directory}/h0.crt and {directory}/h0.key, valid until" in shown
    assert re.search("36[45] days left", shown)


def test_keys_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        certs("init", tmp_path / "certs")
        certs("issue", tmp_path / "certs", "h0")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "h0.crt": 0o644, "h0.key": 0o600}
    assert stat.S_IMODE((tmp_path / "certs").stat().st_mode) == 0o700


@pytest.mark.parametrize("command", [("init",), ("issue", "h0")], ids=lambda command: command[0])
def test_nothing_is_replaced_unasked(directory: Path, command: tuple[str, ...], capsys) -> None:
    certs("issue", directory, "h0")
    content = {path: path.read_bytes() for path in directory.iterdir()}
    arguments = (command[0], directory, *command[1:])
    assert "is there already; --force replaces it" in refused(capsys, *arguments)
    assert {path: path.read_bytes() for path in directory.iterdir()} == content
    assert certs(*arguments, "--force") == 0
    changed = {path.name for path in directory.iterdir() if path.read_bytes() != content[path]}
    assert changed == ({"ca.crt", "ca.key"} if command == ("init",) else {"h0.crt", "h0.key"})


def test_certificates_of_a_replaced_ca_are_shown_as_such(directory: Path, capsys) -> None:
    certs("issue", directory, "h0")
    certs("init", directory, "--force")
    assert [found["trusted"] for found in answer(capsys, "show", directory)["certificates"]] == [True, False]
    assert certs("show", directory) == 0
    assert "not from this CA" in capsys.readouterr().out


def test_expiry_is_shown(directory: Path, capsys) -> None:
    long_ago = authority.utc_now() - timedelta(days=30)
    authority.issue(directory, "h0", (), days=10, force=False, now=long_ago)
    assert answer(capsys, "show", directory)["certificates"][1]["days_left"] < 0
    assert certs("show", directory) == 0
    assert "expired" in capsys.readouterr().out


def test_no_certificate_outlives_its_ca(tmp_path: Path, capsys) -> None:
    certs("init", tmp_path, "--days", "10")
    line = refused(capsys, "issue", tmp_path, "h0", "--days", 11)
    assert re.search("found --days 11, expected at most (9|10): then the CA itself expires", line)


@pytest.mark.parametrize("name", ["../h0", "a/b", "", ".hidden", "h0\n", "ca", "x" * 65, "h 0", "*"])
def test_bad_names_are_refused(directory: Path, name: str, capsys) -> None:
    assert "expected a host's or switch's" in refused(capsys, "issue", directory, name)
    assert sorted(path.name for path in directory.parent.rglob("*")) == ["ca.crt", "ca.key", "certs"]


def test_a_long_name_is_allowed_where_a_cn_could_hold_it(directory: Path) -> None:
    assert authority.issue(directory, "x" * 64, (), 1, False, authority.utc_now()).trusted


@pytest.mark.parametrize("address", ["a b", "", "http://h0", "10.0.0.1/24", "*.example.org"])
def test_bad_addresses_are_refused(directory: Path, address: str, capsys) -> None:
    assert "expected an IP address or a DNS name" in refused(capsys, "issue", directory, "h0", "--address", address)


def test_without_a_ca(tmp_path: Path, capsys) -> None:
    for command in (("issue", tmp_path, "h0"), ("show", tmp_path)):
        assert f"make one with: paceline certs init {tmp_path}" in refused(capsys, *command)


@pytest.mark.parametrize("file", ["ca.crt", "ca.key"])
def test_a_spoilt_ca(directory: Path, file: str, capsys) -> None:
    (directory / file).write_bytes(b"rubbish")
    assert f"{directory / file}:" in refused(capsys, "issue", directory, "h0")


def test_a_key_of_another_ca(directory: Path, tmp_path: Path) -> None:
    certs("init", tmp_path / "other")
    (directory / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(CommandError, match=r"expected the private key of ca\.crt"):
        authority.issue(directory, "h0", (), 1, False, authority.utc_now())


def test_cryptography_is_asked_for_by_name(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "paceline.commands.authority", raising=False)
    monkeypatch.delattr("paceline.commands.authority", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    line = refused(capsys, "init", tmp_path / "certs")
    assert line == "paceline: certificates need cryptography: pip install 'paceline[certs]'\n"
    assert not (tmp_path / "certs").exists()
