"""The reference engine: the daemons' agents, message by message, over a fluid network."""
