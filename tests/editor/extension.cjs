// Loads the extension of editors/vscode between stand-ins for the editor and for the client library,
// and says what it did: which server it would start for which files, and what it told the user.
"use strict";

const Module = require("node:module");
const [, , path, given] = process.argv;
// What the setting is, in which folder, what is answered to a box, which program is chosen then.
const { settings, outcome, folder, trusted, answer, chosen, remote, ofFolder } = JSON.parse(given);

const said = { boxes: [], commands: [], errors: [], lines: [], ran: [], serializers: [], started: [], stopped: 0, watched: [] };
const listeners = { changed: [], trusted: [] };
let command = settings ?? ["xg", "lsp"];
const answers = answer ? [answer] : [];

class LanguageClient {
  constructor(id, name, server, options) {
    Object.assign(this, { server, options, running: false });
  }
  createDefaultErrorHandler() {
    return { error: () => ({ action: "of the library" }), closed: () => ({ action: "of the library" }) };
  }
  error(message, data, show = true) {
    if (show) said.boxes.push(message);
  }
  async start() {
    if (outcome === "fails" && !said.errors.length) {
      const { stderr } = this.options.stdioOptions;
      const stream = { on: (event, listener) => setTimeout(() => listener("Traceback\nno pygls\n"), event === "data" ? 10 : 20) };
      stderr(stream, { error: (line) => said.lines.push(line) });
      said.refused = [this.options.initializationFailedHandler(), this.options.errorHandler.closed(), this.options.errorHandler.error()];
      this.error("couldn't create connection", undefined, "force");
      throw new Error("spawn xg ENOENT");
    }
    this.running = true;
    said.started.push({ server: this.server, selector: this.options.documentSelector });
  }
  async stop() {
    said.lost = [this.options.errorHandler.closed(), this.options.errorHandler.error()];
    this.error("stopping");
    this.running = false;
    said.stopped += 1;
  }
  isRunning() {
    return this.running;
  }
}

async function changed() {
  for (const listener of listeners.changed) await listener({ affectsConfiguration: (name) => name === "xg.command" });
}

const configuration = {
  get: () => command,
  inspect: () => ({ workspaceValue: ofFolder ? command : undefined }),
  update: async (name, words, target) => {
    said.written = [name, words, target];
    const before = command;
    command = words;
    if (before.join() !== words.join()) await changed();
  },
};
const modules = {
  vscode: {
    ConfigurationTarget: { Global: "user", Workspace: "folder" },
    commands: {
      executeCommand: (...words) => said.ran.push(words),
      registerCommand: (name, run) => {
        said.commands.push(name);
        modules.vscode.commands[name] = run;
        return {};
      },
    },
    env: { remoteName: remote },
    window: {
      showErrorMessage: async (message, ...buttons) => {
        said.errors.push(message);
        said.buttons = buttons;
        return answers.pop();
      },
      showOpenDialog: async () => chosen && [{ fsPath: chosen }],
      registerWebviewPanelSerializer: (kind) => said.serializers.push(kind),
    },
    workspace: {
      isTrusted: trusted,
      workspaceFolders: [{ uri: { fsPath: folder } }],
      getConfiguration: () => configuration,
      createFileSystemWatcher: (pattern) => said.watched.push(pattern),
      onDidChangeConfiguration: (listener) => listeners.changed.push(listener),
      onDidChangeTextDocument: () => ({}),
      onDidCloseTextDocument: () => ({}),
      onDidGrantWorkspaceTrust: (listener) => listeners.trusted.push(listener),
    },
  },
  "vscode-languageclient/node": {
    CloseAction: { DoNotRestart: "do not restart" },
    ErrorAction: { Continue: "go on" },
    LanguageClient,
    TransportKind: { stdio: 0 },
  },
};
const load = Module._load;
Module._load = (name, ...rest) => modules[name] ?? load(name, ...rest);

async function main() {
  const extension = require(path);
  await extension.activate({ subscriptions: [] });
  await new Promise((resolve) => setTimeout(resolve, 1000)); // until boxes are answered
  if (!answer && !trusted) {
    modules.vscode.workspace.isTrusted = true;
    for (const listener of listeners.trusted) await listener();
  }
  if (!answer) await changed();
  if (!answer) await modules.vscode.commands["xg.restart"]();
  await extension.deactivate();
  console.log(JSON.stringify(said));
}

main();
