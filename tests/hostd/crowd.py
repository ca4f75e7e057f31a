"""Files of counters that a process forges."""

from pathlib import Path

from nccl_shim.segment.layout import Header


def further_names(file: Path, count: int) -> None:
    """Copies of the file that name other jobs."""
    content = bytearray(file.read_bytes())
    start, size = Header.job.offset, Header.job.size
    for number in range(count):
        content[start : start + size] = f"crowd{number}".encode().ljust(size, b"\0")
        copy = file.with_name(f"{file.name.rsplit('-', 1)[0]}-{1000 + number}.pls")
        copy.touch(mode=0o600)
        copy.write_bytes(content)
