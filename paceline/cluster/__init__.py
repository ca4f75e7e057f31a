"""Where jobs go: pure functions over a cluster's state."""
