"""The inner loops of the array engine in C, and how they are built and found; without them numpy does the same."""
