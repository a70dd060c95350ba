"""Editor support: the meaning of a place in a file, and the language server."""
