"""Completion of the command line for three shells, and its manual page."""
