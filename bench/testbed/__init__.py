"""An emulated cluster on one machine: hosts and switches are network namespaces, cables are veth pairs."""
