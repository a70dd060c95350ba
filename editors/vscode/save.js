// The figure of the block at the cursor as a file, of the kind that its name ends in.
"use strict";

const { basename, join, dirname, extname } = require("node:path");
const { Uri, window, workspace } = require("vscode");
const { build } = require("./process.js");

const KINDS = { SVG: ["svg"], PDF: ["pdf"], PNG: ["png"], TikZ: ["tex"], DOT: ["dot"], "Page to explore": ["html"] };

/** The last block that begins above the end of a line; where there is none, xg takes the last of the file. */
function blockAt(text, line) {
  const above = text.split("\n").slice(0, line + 1).join("\n");
  const name = [...above.matchAll(/^block\s+([^\s"(]+)/gm)].at(-1)?.[1];
  return name === undefined ? [] : ["--block", name];
}

/** Ask for a file, and draw the figure of the text in front into it, or of the one that is previewed; `words` start xg. */
async function save(words, previewed) {
  const document = previewed ?? window.activeTextEditor?.document;
  if (document?.languageId !== "xg") return;
  const editor = window.visibleTextEditors.find((each) => each.document === document);
  const line = editor?.selection.active.line ?? document.lineCount;
  const folder = document.isUntitled ? workspace.workspaceFolders?.[0]?.uri.fsPath ?? "" : dirname(document.fileName);
  const name = `${basename(document.fileName, extname(document.fileName))}.svg`;
  const target = await window.showSaveDialog({ defaultUri: Uri.file(join(folder, name)), filters: KINDS, title: "Save the figure" });
  if (target === undefined) return;
  const more = ["-o", target.fsPath, ...blockAt(document.getText(), line)];
  await new Promise((resolve) => build(words(), document, more, (written, said) => {
    if (written === null) window.showErrorMessage(said.trim());
    else window.showInformationMessage(`xg: ${target.fsPath} is written.`);
    resolve();
  }));
}

module.exports = { save };
