"""The scheduler of one host as a state machine."""
