"""Fixtures: switches, and certificates for them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from paceline.commands import authority
from paceline.flowcore.model.topology import Topology
from paceline.service.tls import TlsFiles
from tests.switchd.fabric import Fabric


@pytest.fixture
async def fabric() -> AsyncIterator[Callable[..., Awaitable[Fabric]]]:
    made: list[Fabric] = []

    async def make(topology: Topology, **options: Any) -> Fabric:
        made.append(Fabric(topology, **options))
        await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TlsFiles]:
    """Certificates of one CA, by name."""
    directory = tmp_path_factory.mktemp("certs")
    authority.init(directory, days=2, force=False, now=authority.utc_now())

    def of(name: str) -> TlsFiles:
        if not (directory / f"{name}.crt").exists():
            authority.issue(directory, name, (), days=1, force=False, now=authority.utc_now())
        return TlsFiles(*(directory / file for file in ("ca.crt", f"{name}.crt", f"{name}.key")))

    return of
