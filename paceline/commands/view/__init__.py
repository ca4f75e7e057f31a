"""What commands draw."""
