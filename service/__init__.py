"""What both daemons need to be operated: logs, systemd, metrics, start and stop, TLS. It decides nothing.

Import it before grpc: gRPC's C core writes a line of its own to stderr for every failed handshake, which any peer can
cause, and reads this variable while it is imported.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
