"""What `paceline bench paper` runs, one short file each; registry.py lists all, experiment.py says what one is."""
