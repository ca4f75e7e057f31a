"""The array engine: arrays over flows, for whole clusters and hours of trace."""
