"""One emulated switch: a gRPC shell around flowcore's SwitchAgent."""
