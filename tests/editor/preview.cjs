// Opens a preview of editors/vscode between stand-ins for the editor, with a compiler that is real,
// types texts one after the other, and says what the panel showed after each.
"use strict";

const Module = require("node:module");
const [, , path, given] = process.argv;
const { words, file, texts } = JSON.parse(given);

const said = { panels: 0, shown: [], closed: 0 };
const listeners = { changed: [], closed: [] };
let told = () => {};
const webview = {
  set html(page) {
    said.first ??= page;
    said.page = page;
  },
};
const panel = {
  webview,
  set title(title) {
    said.shown.push([title, said.page]);
    setTimeout(() => told(), 0); // when the page is there, too
  },
  onDidDispose: (closed) => {
    panel.closed = closed;
  },
  reveal: () => {},
  dispose: () => panel.closed(),
};
let text = "";
const uri = { toString: () => `file://${file}` };
const document = { languageId: "xg", fileName: file, isUntitled: false, uri, getText: () => text };
const vscode = {
  ViewColumn: { Beside: -2 },
  window: {
    activeTextEditor: { document },
    createWebviewPanel: (kind, title, column, may) => {
      said.panels += 1;
      said.may = may;
      return panel;
    },
    registerWebviewPanelSerializer: (kind, serializer) => {
      said.serializer = serializer;
    },
  },
  Uri: { parse: (text) => text },
  workspace: {
    openTextDocument: async (uri) => {
      said.reopened = uri;
      return document;
    },
    onDidChangeTextDocument: (listener) => listeners.changed.push(listener),
    onDidCloseTextDocument: (listener) => listeners.closed.push(listener),
  },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

async function main() {
  const { previewing } = require(path);
  const { preview } = previewing(() => words);
  const pages = [];
  for (const next of texts) {
    const shown = new Promise((resolve) => {
      told = resolve;
    });
    text = next;
    if (pages.length) for (const listener of listeners.changed) listener({ document });
    else preview();
    await shown;
    pages.push([said.shown.at(-1)[0], said.page]);
  }
  preview();
  for (const listener of listeners.closed) listener(document);
  const again = new Promise((resolve) => {
    told = resolve;
  });
  await said.serializer.deserializeWebviewPanel(panel, { uri: uri.toString() });
  await again;
  const { first, panels, may, reopened } = said;
  console.log(JSON.stringify({ first, pages, panels, may, reopened, again: said.page }));
}

main();
