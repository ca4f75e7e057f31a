"""How far one engine agrees with the other, and the simulator with what was measured on the testbed."""
