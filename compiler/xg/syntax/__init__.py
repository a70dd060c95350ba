"""The language's surface: text to tree (`parse`), text to tidy text (`format`), its errors."""
