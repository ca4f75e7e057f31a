"""The protocol of hosts and switches: stubs made from proto/ (scripts/proto), the codec between them and flowcore's
messages, and the client's end of a stream."""
