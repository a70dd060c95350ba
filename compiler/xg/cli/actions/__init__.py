"""The actions of the commands: one module each, imported when the arguments have been parsed."""
