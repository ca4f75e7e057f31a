"""What both daemons need to be operated: logs, systemd, metrics, start and stop, TLS. It decides nothing.

Import it before grpc, whose C core reads these variables while it is imported.
"""

import os

# gRPC would write a line to stderr for every failed handshake, which any peer can cause.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# gRPC's newer I/O hands every message through three threads before asyncio sees it. The older has one thread fewer on
# the way, and a bare round trip takes less CPU at each end.
os.environ.setdefault(
    "GRPC_EXPERIMENTS",
    ",".join(f"-event_engine_{part}" for part in ("listener", "client", "for_all_other_endpoints", "callback_cq")),
)
