"""Results as one HTML page: parts.py has tables and figures as data, svg.py draws them, page.py is the page."""
