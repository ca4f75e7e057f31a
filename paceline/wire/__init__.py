"""What hosts and switches say to each other: stubs made from proto/ (scripts/proto), their translation to and from
flowcore's messages, and the client's end of a stream."""
