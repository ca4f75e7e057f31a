"""One emulated switch: a gRPC shell around flowcore's SwitchAgent."""

import paceline.service  # noqa: F401  before grpc: it sets what gRPC's core reads at its import
