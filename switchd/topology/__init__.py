"""What follows from the topology for one switch, and how another topology takes its place while the switch runs."""
