"""What a job on this host has to send and when, as the decision engine wants to hear it, told from facts alone."""
