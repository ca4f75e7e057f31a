"""Results as tables and figures."""
