"""What can be told from counters alone: bursts, losses, clocks, cross traffic."""
