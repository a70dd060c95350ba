"""The language server of `xg lsp`: `xg_editor.meaning` in the terms of the protocol.

Thin on purpose. It keeps the texts that are open, asks the compiler about them, and translates
places and answers. Nothing but `xg lsp` imports it, because pygls is an extra.
"""
