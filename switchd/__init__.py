"""One emulated switch: a gRPC shell around flowcore's SwitchAgent."""

import paceline.service  # noqa: F401  before grpc: it tells gRPC's core to leave standard error to us
