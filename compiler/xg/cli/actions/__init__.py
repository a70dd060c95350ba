"""What the commands do: one module each, imported when the arguments have been parsed."""
