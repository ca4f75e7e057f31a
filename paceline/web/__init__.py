"""A page of what daemons do, read only: it asks hostd and switchd as an operator would, and keeps an hour of it."""
