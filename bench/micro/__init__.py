"""One part measured by itself: the allocator, negotiation, rates, what the daemon costs."""
