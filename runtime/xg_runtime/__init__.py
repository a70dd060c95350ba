"""The run time of generated programs, `xg run`, `xg train` and `xg verify`.

Nothing here knows the compiler: every function works on a generated module (`xg_runtime.module`) or
on plain arrays. Importing this package imports nothing else; each part is imported by name.
"""
