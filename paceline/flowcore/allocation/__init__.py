"""How much of a link each flow gets: slots, shares, ceilings. Pure functions."""
