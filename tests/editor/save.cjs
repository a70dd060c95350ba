// Saves figures by editors/vscode between stand-ins for the editor, with a compiler that is real, and
// says what was asked and told.
"use strict";

const Module = require("node:module");
const [, , path, given] = process.argv;
const { words, file, text, line, target, front } = JSON.parse(given);

const said = { errors: [], told: [] };
const document = { languageId: "xg", fileName: file, isUntitled: false, getText: () => text, lineCount: text.split("\n").length };
const editor = { document, selection: { active: { line } } };
const vscode = {
  Uri: { file: (fsPath) => ({ fsPath }) },
  window: {
    activeTextEditor: front === "text" ? editor : undefined,
    visibleTextEditors: front === "page" ? [] : [editor],
    showErrorMessage: (message) => said.errors.push(message),
    showInformationMessage: (message) => said.told.push(message),
    showSaveDialog: async (asked) => {
      said.asked = asked;
      return target ? { fsPath: target } : undefined;
    },
  },
  workspace: {},
};
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

const previewed = front === "text" ? undefined : document;
require(path).save(() => words, previewed).then(() => console.log(JSON.stringify(said)));
