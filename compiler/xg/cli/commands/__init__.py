"""Hold the commands, one module each; `command_list` names them.

A module has the command's arguments, the rules about them, and `run`. Functions import what is
heavy themselves: `--help`, shell completion and a wrong word then don't wait for it, and NumPy is
imported only after `--threads` has been read.
"""
