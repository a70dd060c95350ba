"""The additions of the language server to xg."""

from __future__ import annotations

from xg.packages import Package

PACKAGE = Package(
    "xg_editor",
    "the language server: errors as you type, shapes, layout",
    commands={"lsp": "serve an editor: errors as you type, shapes under the cursor, formatting"},
    probe="xg_editor.commands.lsp:probe",
)
