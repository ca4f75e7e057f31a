"""The experiments of the paper (MLCC, section VI)."""
