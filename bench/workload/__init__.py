"""What runs on the testbed's hosts: training jobs, real or of plain sockets, and cross traffic."""
