// The explorer beside the text: the page that `xg build` makes of it, as it is typed, saved or not.
"use strict";

const { spawn } = require("node:child_process");
const { basename, dirname } = require("node:path");
const { ViewColumn, window, workspace } = require("vscode");

const PAUSE = 300; // milliseconds after a key

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** The page of a text that is called `name`, by a process that `kill` ends; `done` gets the page, or what is wrong. */
function build(words, text, name, folder, done) {
  const [command, ...args] = words;
  const made = spawn(command, [...args, "build", "-", "--stdin-filename", name, "--only", "html", "-o", "-"], { cwd: folder });
  const [out, said] = [[], []];
  made.stdout.on("data", (data) => out.push(data));
  made.stderr.on("data", (data) => said.push(data));
  made.on("error", (error) => done(null, error.message));
  made.on("close", (code, signal) => {
    if (signal) return; // a newer text is on its way
    done(code === 0 ? Buffer.concat(out).toString() : null, Buffer.concat(said).toString());
  });
  made.stdin.on("error", () => {}); // it has ended before it read: `close` says how
  made.stdin.end(text);
  return made;
}

class Preview {
  constructor(document, words, closed) {
    this.document = document;
    this.words = words;
    this.name = basename(document.fileName);
    this.shows = false; // a page, and no error
    const column = { viewColumn: ViewColumn.Beside, preserveFocus: true };
    const may = { enableScripts: true, localResourceRoots: [], retainContextWhenHidden: true };
    this.panel = window.createWebviewPanel("xg.preview", this.name, column, may);
    this.panel.onDidDispose(() => {
      this.stop();
      closed();
    });
    this.draw();
  }

  stop() {
    clearTimeout(this.timer);
    this.process?.kill();
  }

  /** Draw the text when its author pauses. */
  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.draw(), PAUSE);
  }

  draw() {
    this.process?.kill();
    const { fileName, isUntitled } = this.document;
    const folder = isUntitled ? workspace.workspaceFolders?.[0]?.uri.fsPath : dirname(fileName);
    this.process = build(this.words(), this.document.getText(), this.name, folder, (page, said) => this.show(page, said));
  }

  /** The page; with errors the last good one stays, and the title says that there are some. */
  show(page, said) {
    this.panel.title = page === null ? `✗ ${this.name}` : this.name;
    if (page === null && this.shows) return;
    this.shows = page !== null;
    this.panel.webview.html = page ?? `<!doctype html><meta charset="utf-8"><pre>${escaped(said)}</pre>`;
  }
}

/** A command that previews the text in front, one preview for each; `words` start xg. */
function previewing(words) {
  const open = new Map();
  function preview() {
    const document = window.activeTextEditor?.document;
    if (document?.languageId !== "xg") return;
    if (open.has(document)) open.get(document).panel.reveal(undefined, true);
    else open.set(document, new Preview(document, words, () => open.delete(document)));
  }
  const changes = workspace.onDidChangeTextDocument(({ document }) => open.get(document)?.changed());
  const closes = workspace.onDidCloseTextDocument((document) => open.get(document)?.panel.dispose());
  return { preview, parts: [changes, closes] };
}

module.exports = { previewing };
