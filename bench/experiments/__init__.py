"""The paper's experiments (MLCC, section VI) and our own promises, one short file each; all.py lists them."""
