"""One emulated switch as a state machine."""
