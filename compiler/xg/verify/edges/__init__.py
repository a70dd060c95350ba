"""Every form of a program where numbers are special, against the interpreter.

Random numbers never tie, are never zero, and fill axes of at least two; errors hide in the rest.
"""
