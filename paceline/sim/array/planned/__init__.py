"""Policies whose hosts plan slot by slot (`mlcc`), in C."""
