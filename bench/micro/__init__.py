"""One part of Paceline measured by itself: the allocator, negotiation, rates, what the daemon costs."""
