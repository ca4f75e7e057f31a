"""How a rate becomes a fact: interchangeable ways to make the kernel hold flows to their limits."""
