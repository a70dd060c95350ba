// Loads the extension of editors/vscode between stand-ins for the editor and for the client library,
// and says what it did: which server it would start for which files, and what it told the user.
"use strict";

const Module = require("node:module");
const [, , path, settings, outcome] = process.argv;

const said = { commands: [], errors: [], serializers: [], started: [], stopped: 0, watched: [] };
const listeners = [];

class LanguageClient {
  constructor(id, name, server, options) {
    Object.assign(this, { server, options, running: false });
  }
  async start() {
    if (outcome === "fails") throw new Error("spawn xg ENOENT");
    this.running = true;
    said.started.push({ server: this.server, selector: this.options.documentSelector });
  }
  async stop() {
    this.running = false;
    said.stopped += 1;
  }
  isRunning() {
    return this.running;
  }
}

const modules = {
  vscode: {
    commands: {
      registerCommand: (name, run) => {
        said.commands.push(name);
        modules.vscode.commands[name] = run;
        return {};
      },
    },
    window: {
      showErrorMessage: (message) => said.errors.push(message),
      registerWebviewPanelSerializer: (kind) => said.serializers.push(kind),
    },
    workspace: {
      workspaceFolders: [{ uri: { fsPath: "/work" } }],
      getConfiguration: () => ({ get: (_, standard) => JSON.parse(settings) ?? standard }),
      createFileSystemWatcher: (pattern) => said.watched.push(pattern),
      onDidChangeConfiguration: (listener) => listeners.push(listener),
      onDidChangeTextDocument: () => ({}),
      onDidCloseTextDocument: () => ({}),
    },
  },
  "vscode-languageclient/node": { LanguageClient, TransportKind: { stdio: 0 } },
};
const load = Module._load;
Module._load = (name, ...rest) => modules[name] ?? load(name, ...rest);

async function main() {
  const extension = require(path);
  await extension.activate({ subscriptions: [] });
  for (const listener of listeners) {
    await listener({ affectsConfiguration: (name) => name === "xg.command" });
  }
  await modules.vscode.commands["xg.restart"]();
  await extension.deactivate();
  console.log(JSON.stringify(said));
}

main();
