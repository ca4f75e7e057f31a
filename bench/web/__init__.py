"""`paceline web` in a real browser: a small cluster, Chromium, and the picture in README."""
