"""What agents tell each other and their shells."""
