"""Completion in bash, asked as bash asks; zsh and fish where they are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from paceline.cli import main

ASKED = [
    ("paceline ", {"sim", "run", "status", "deploy", "--version"}, {"mixes", "--policy"}),
    ("paceline sim ", {"run", "mixes", "trace"}, {"sim", "status"}),
    ("paceline sim r", {"run"}, {"mixes"}),
    ("paceline sim run --json ", {"--policy", "--seed"}, {"mixes"}),
    ("paceline sim run x.toml --policy ", {"fair", "paceline"}, {"--seed"}),
    ("paceline completion ", {"bash", "zsh", "fish"}, {"sim"}),
    ("hostd --", {"--config", "--check", "--version"}, {"sim"}),
    ("hostd --backend ", {"htb", "pacing"}, {"--config"}),
    ("switchd --", {"--scenario", "--version"}, {"--backend"}),
]
BASH = """
. "$1"
COMP_WORDS=($2) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
[[ $2 == *" " ]] && COMP_WORDS+=("") COMP_CWORD=$((COMP_CWORD + 1))
_paceline
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
_describe() { print -rl -- ${(P)2%%:*} }
compadd() { shift; print -rl -- $@ }
_files() { print -rl -- "a file" }
words=(${(z)2}) CURRENT=$#words
[[ $2 == *" " ]] && words+=("") && CURRENT=$((CURRENT + 1))
. $1
"""


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest) -> str:
    """Where zsh and fish are not installed, bash is all there is."""
    return str(request.param) if shutil.which(request.param) else "bash"


@pytest.fixture
def script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    path = tmp_path / "script"
    path.write_text(capsys.readouterr().out)
    return path


def offered(shell: str, script: Path, line: str) -> set[str]:
    command = {
        "bash": ["bash", "--norc", "-c", BASH, "bash", str(script), line],
        "zsh": ["zsh", "-f", "-c", ZSH, "zsh", str(script), line],
        "fish": ["fish", "--no-config", "-c", f"source {script}; complete -C {line!r}"],
    }[shell]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=script.parent)
    assert done.stderr == ""
    return {word.split("\t")[0] for word in done.stdout.splitlines()}


def test_words_that_may_follow(shell: str, script: Path) -> None:
    for line, there, not_there in ASKED:
        found = offered(shell, script, line)
        last = line.rpartition(" ")[2]
        if shell == "fish" and not last.startswith("-"):  # it offers options after a dash
            there = {word for word in there if not word.startswith("-")}
        assert there <= found, line
        assert not not_there & {word for word in found if word.startswith(last)}, line


def test_files_where_files_are_meant(shell: str, script: Path) -> None:
    (script.parent / "a file").touch()
    assert "a file" in offered(shell, script, "paceline sim run a") | offered(shell, script, "paceline sim run ")
    assert any("file" in word for word in offered(shell, script, "hostd --config "))
