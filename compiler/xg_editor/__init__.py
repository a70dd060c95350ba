"""Editor support: the meaning of a place in a file, and the language server.

`declared`, `complete`, `explain` and `navigation` compute the meaning from trees and typed graphs,
also if parts of them are missing because the file is being typed. They read nothing and keep
nothing. `session` keeps the open texts and asks the compiler about them; `language_server` answers
the requests of the protocol. Only `xg lsp` imports these two, because pygls is an extra.
"""
