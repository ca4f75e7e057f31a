"""Manual pages: one for each command, and nothing in them that roff does not understand."""

import shutil
import subprocess
from pathlib import Path

from paceline.cli import build_parser, main
from paceline.commands.install.man_pages import page, pages
from paceline.commands.install.programs import parsers_of_all
from paceline.commands.install.tree import Command, tree


def test_every_command_has_its_page() -> None:
    root = build_parser()
    found = pages(parsers_of_all(root))
    assert {f"man1/paceline-{command.words[1]}.1" for command in tree(root).commands} < found.keys()
    assert {"man1/paceline.1", "man8/hostd.8", "man8/switchd.8"} < found.keys()
    assert "\\fB\\-\\-takeover\\fR" in found["man8/hostd.8"]
    assert "PACELINE SIM RUN" in found["man1/paceline-sim.1"]
    assert "\\fBpaceline\\-sim\\fR(1)" in found["man1/paceline.1"]


def test_text_is_not_taken_for_requests() -> None:
    text = page(Command(("x",), "", ".so /etc/passwd\n'quoted' \\n", "x", "", (), ()), 1, ())
    assert "\n\\&.so /etc/passwd\n\\&'quoted' \\en\n" in text


def test_roff_understands_them(tmp_path: Path, capsys) -> None:
    """Where man and its formatter are not installed the tests above are all there is."""
    assert main(["man", str(tmp_path)]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert all(path.is_file() for path in written)
    if shutil.which("groff") is None:
        return
    done = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", *written], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
