"""The language's surface: text to tree (`parse`), text to tidy text (`format`), and its mistakes."""
