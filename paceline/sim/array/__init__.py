"""The fast engine: arrays over flows, for whole clusters and hours of trace."""
