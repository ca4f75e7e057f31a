"""Results as one HTML page: parts.py says what there is to show, svg.py draws it, page.py puts it together."""
