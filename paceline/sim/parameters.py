"""Parameters that the reference and the array engine share: what both assume of hosts, links and control messages."""

# A control message takes so long each way between a host and its switch, and between two switches.
DEFAULT_LATENCY_MS = 2.0

# Flows inside one host run at memory speed.
LOCAL_BPS = 1e13

# At 100 Gbit/s a nanosecond is 12 bytes; closer than a few packets, a flow counts as having caught up.
CAUGHT_UP_BYTES = 64.0

# Rounds of passing a slower feeder's rate on, and of giving back what the network did not let a flow use.
DEPENDENCY_ROUNDS = 12
HTB_ROUNDS = 3
