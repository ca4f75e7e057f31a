"""The C header and its Python mirror describe the same bytes."""

import ctypes
import json
import subprocess

import pytest

from nccl_shim import build
from nccl_shim.segment import layout
from nccl_shim.segment.layout import Header, Iteration, Record

STRUCTS = {"pls_header": Header, "pls_iteration": Iteration, "pls_record": Record}
ENUMS = {
    "PLS_NCCL": layout.Source.NCCL,
    "PLS_TORCH": layout.Source.TORCH,
    "PLS_PS": layout.Source.PS,
    "PLS_WORKER": layout.ProcessRole.WORKER,
    "PLS_SERVER": layout.ProcessRole.SERVER,
    "PLS_FINISHED": layout.FINISHED,
    "PLS_FREE": layout.FREE,
    "PLS_PUBLISHED": layout.PUBLISHED,
    "PLS_CLOSED": layout.CLOSED,
    "PLS_RECORD_COUNT": layout.RECORD_COUNT,
    "PLS_FILE_BYTES": layout.FILE_BYTES,
    "PLS_VERSION": layout.VERSION,
    "PLS_HEADER_BYTES": layout.HEADER_BYTES,
    "PLS_RECORD_BYTES": layout.RECORD_BYTES,
    "PLS_MAGIC": layout.MAGIC,
    **{f"PLS_{kind.name}": kind for kind in layout.Kind},
}


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What the compiler says about every field that the mirror names."""
    lines = []
    for name, mirror in STRUCTS.items():
        lines.append(f'P("{name}", sizeof(struct {name}), 0ul);')
        for field, *_ in mirror._fields_:
            lines.append(
                f'P("{name}.{field}", offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field}));'
            )
    lines += [f'P("{name}", (unsigned long){name}, 0ul);' for name in ENUMS]
    source = f"""
        #include <stddef.h>
        #include <stdio.h>
        #include "{build.PACKAGE}/csrc/paceline_shm.h"
        #define P(name, a, b) printf(",\\"%s\\":[%lu,%lu]", name, (unsigned long)(a), (unsigned long)(b))
        int main(void) {{ printf("{{\\"-\\":[0,0]"); {" ".join(lines)} puts("}}"); return 0; }}
    """
    place = tmp_path_factory.mktemp("probe")
    (place / "probe.c").write_text(source)
    build.run_compiler(["-std=c11", "-Werror", str(place / "probe.c"), "-o", str(place / "probe")])
    return json.loads(subprocess.run([place / "probe"], check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("name", STRUCTS)
def test_every_field_has_the_offset_and_size_of_the_c_header(probed: dict, name: str) -> None:
    mirror = STRUCTS[name]
    assert probed[name][0] == ctypes.sizeof(mirror)
    for field, *_ in mirror._fields_:
        described = getattr(mirror, field)
        assert probed[f"{name}.{field}"] == [described.offset, described.size], field


def test_fields_cover_the_structs_without_gaps() -> None:
    # A field missing in the mirror would leave a hole that the comparison above cannot see.
    for mirror in STRUCTS.values():
        assert sum(getattr(mirror, field).size for field, *_ in mirror._fields_) == ctypes.sizeof(mirror)


def test_constants_agree(probed: dict) -> None:
    assert {name: probed[name][0] for name in ENUMS} == {name: int(value) for name, value in ENUMS.items()}


def test_counters_are_aligned_words() -> None:
    for mirror in STRUCTS.values():
        for field, kind, *_ in mirror._fields_:
            if kind is ctypes.c_uint64:
                assert getattr(mirror, field).offset % 8 == 0
    assert Record.tx_bytes.offset == 64, "the transmit side starts its own cache line"


def test_wire_bytes_of_a_ring() -> None:
    assert layout.ring_wire_bytes("AllReduce", 1000, 4) == 1500
    assert layout.ring_wire_bytes("AllGather", 1000, 4) == layout.ring_wire_bytes("ReduceScatter", 1000, 4) == 3000
    assert layout.ring_wire_bytes("AllReduce", 1000, 1) == 0
