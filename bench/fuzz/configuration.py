"""Mutants of configurations and scenarios: what is wrong with a file is said in one line, whatever is in it."""

import random
import re
from collections import Counter
from pathlib import Path
from typing import ClassVar

from bench.fuzz.mutate import mutant
from hostd import config as hostd_config
from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.scenario import parse_scenario
from switchd import config as switchd_config

ROOT = Path(__file__).parents[2]
FILES = {
    "hostd": (hostd_config.parse_config, ("deploy/hostd.toml",)),
    "switchd": (switchd_config.parse_config, ("deploy/switchd.toml",)),
    "scenario": (parse_scenario, ("scenarios/two-jobs.toml", "scenarios/tree.toml", "scenarios/clos.toml")),
}
VALUES = (
    *("0", "-1", "1e308", "nan", "-inf", "99999999999999999999", "0x7fff", "true", '""', '"x"', '"h0"', "[]", "{}"),
    *('"\\u0000"', '"é"', "1979-05-27T07:32:00Z", "12:00:00", "[1, 'a', [2]]", "{a = {b = {}}}", '"a\\nb"', "3.5"),
    *(
        '"10.0.0.1:99999"',
        '"[::1]:1"',
        '"../../etc"',
        "'(a+)+$'",
        '"' + "x" * 5000 + '"',
        "[" * 3000,
        "[" + "0," * 900 + "]",
    ),
)


class ConfigurationTarget:
    name: ClassVar[str] = "configuration"

    def __init__(self) -> None:
        self._texts = {kind: [_bare((ROOT / name).read_text()) for name in names] for kind, (_, names) in FILES.items()}

    async def feed(self, draws: random.Random) -> Counter[str]:
        kind = draws.choice(list(FILES))
        texts = self._texts[kind]
        data = mutant(draws, texts) if draws.random() < 0.3 else _other_values(draws, draws.choice(texts))
        try:
            FILES[kind][0](data.decode(errors="replace"), "fuzz")
        except (InputError, OSError):  # OSError: a file that it names, as topology_file, is not there
            return Counter({f"{kind} refused": 1})
        return Counter({f"{kind} taken": 1})

    async def close(self) -> None:
        pass


def _bare(text: str) -> bytes:
    """Without comments, which only take time. Some of them show a key, which a mutant may have."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if re.match(r"(# ?)?\w+ *= *\S|\[", line)).encode()


def _other_values(draws: random.Random, text: bytes) -> bytes:
    """Keys with other values, lines doubled, left out, or moved."""
    lines = text.decode().splitlines()
    for _ in range(draws.randint(1, 3)):
        at = draws.randrange(len(lines))
        match draws.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, draws.choice(lines))
            case _:
                key, equals, _ = lines[at].lstrip("# ").partition("=")
                if equals:
                    lines[at] = f"{key}= {draws.choice(VALUES)}"
        if not lines:
            break
    return "\n".join(lines).encode()
