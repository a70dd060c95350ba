// The explorer beside the text: the page that `xg build` makes of it, as it is typed, saved or not.
"use strict";

const { basename } = require("node:path");
const { Uri, ViewColumn, window, workspace } = require("vscode");
const { explorer, reason } = require("./page.js");
const { build } = require("./process.js");

const PAUSE = 300; // milliseconds after a key
const MAY = { enableScripts: true, localResourceRoots: [] };

class Preview {
  constructor(document, words, closed, panel) {
    this.document = document;
    this.words = words;
    this.name = `Figure of ${basename(document.fileName)}`; // the text beside it has a tab, too
    this.shows = false; // a page, and no error
    this.shown = ""; // the page
    const column = { viewColumn: ViewColumn.Beside, preserveFocus: true };
    this.panel = panel ?? window.createWebviewPanel("xg.preview", this.name, column, { ...MAY, retainContextWhenHidden: true });
    this.panel.onDidDispose(() => {
      this.stop();
      closed();
    });
    // The first picture takes a second or more; a window that is loaded again until then knows the text.
    this.panel.webview.html = reason("drawing …", document.uri.toString());
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
    this.process = build(this.words(), this.document, ["--only", "html", "-o", "-"], (page, said) => this.show(page, said));
  }

  /** The page; with errors the last good one stays, and the title says that there are some. */
  show(page, said) {
    this.panel.title = page === null ? `✗ ${this.name}` : this.name;
    if (page === null && this.shows) return;
    this.shows = page !== null;
    const uri = this.document.uri.toString();
    const shown = page === null ? reason(said, uri) : explorer(page, uri);
    if (shown !== this.shown) this.panel.webview.html = this.shown = shown;
  }
}

/** A command that previews the text in front, one preview for each; `words` start xg. */
function previewing(words) {
  const open = new Map();
  const begin = (document, panel) => open.set(document, new Preview(document, words, () => open.delete(document), panel));
  function preview() {
    const document = window.activeTextEditor?.document;
    if (document?.languageId !== "xg") return;
    if (open.has(document)) open.get(document).panel.reveal(undefined, true);
    else begin(document);
  }
  /** A panel of the window before: its page has said of which text it is. */
  async function deserializeWebviewPanel(panel, state) {
    panel.webview.options = MAY;
    try {
      const document = await workspace.openTextDocument(Uri.parse(state.uri));
      if (open.has(document)) panel.dispose();
      else begin(document, panel);
    } catch { // a text without a file is gone
      panel.dispose();
    }
  }
  const again = window.registerWebviewPanelSerializer("xg.preview", { deserializeWebviewPanel });
  const changes = workspace.onDidChangeTextDocument(({ document }) => open.get(document)?.changed());
  const closes = workspace.onDidCloseTextDocument((document) => open.get(document)?.panel.dispose());
  /** The text of the preview in front. */
  const previewed = () => [...open].find(([, { panel }]) => panel.active)?.[0];
  return { preview, previewed, parts: [again, changes, closes] };
}

module.exports = { previewing };
