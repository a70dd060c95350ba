// A run of xg on a text, saved or not.
"use strict";

const { spawn } = require("node:child_process");
const { basename, dirname } = require("node:path");
const { workspace } = require("vscode");

const INSTALL = 'The setting xg.command names the one to use: .venv/bin/xg in a checkout, elsewhere what "which xg" prints.';

/** `xg build` of a document with more words; `done` gets what it wrote, or null and what is wrong. `kill` ends it. */
function build(words, document, more, done) {
  const [command, ...args] = words;
  const { fileName, isUntitled } = document;
  const cwd = isUntitled ? workspace.workspaceFolders?.[0]?.uri.fsPath : dirname(fileName);
  const made = spawn(command, [...args, "build", "-", "--stdin-filename", basename(fileName), ...more], { cwd });
  const [out, said] = [[], []];
  made.stdout.on("data", (data) => out.push(data));
  made.stderr.on("data", (data) => said.push(data));
  let failed = false;
  made.on("error", (error) => { // `close` follows, and has nothing to say
    failed = true;
    done(null, `xg: "${words.join(" ")}" does not start: ${error.message}.\n${INSTALL}`);
  });
  made.on("close", (code, signal) => {
    if (signal || failed) return; // a newer text is on its way
    const why = Buffer.concat(said).toString() || `"${words.join(" ")} build" ends with ${code}, and says nothing.`;
    done(code === 0 ? Buffer.concat(out).toString() : null, why);
  });
  made.stdin.on("error", () => {}); // it has ended before it read: `close` says how
  made.stdin.end(document.getText());
  return made;
}

module.exports = { build };
