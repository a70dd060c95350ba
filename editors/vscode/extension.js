// Starts `xg lsp` for .xg files, says what to do where that does not work, shows previews and saves figures.
"use strict";

const { commands, window, workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");
const { previewing } = require("./preview.js");
const { save } = require("./save.js");

/** @type {LanguageClient | undefined} */
let client;
/** @type {import("vscode").FileSystemWatcher} */
let watcher; // files that nobody has open may be used by one that is

function serverCommand() {
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const words = workspace.getConfiguration("xg").get("command", ["xg", "lsp"]);
  return words.map((word) => word.replaceAll("${workspaceFolder}", folder));
}

/** The same command, without what makes it a server. */
function compilerCommand() {
  const words = serverCommand();
  return words.at(-1) === "lsp" ? words.slice(0, -1) : words;
}

/** Shows an error until it is answered: one with a button stays. */
async function offerSetting(message) {
  const open = "Open the setting";
  if ((await window.showErrorMessage(message, open)) === open) {
    await commands.executeCommand("workbench.action.openSettings", "xg.command");
  }
}

async function start() {
  const [command, ...args] = serverCommand();
  const server = { command, args, transport: TransportKind.stdio };
  client = new LanguageClient("xg", "xg", server, {
    documentSelector: [
      { scheme: "file", language: "xg" },
      { scheme: "untitled", language: "xg" },
    ],
    synchronize: { fileEvents: watcher },
  });
  try {
    await client.start();
  } catch {
    // A window that is being loaded may get its settings while the standard command is tried.
    if (serverCommand().join("\0") !== [command, ...args].join("\0")) return start();
    offerSetting(
      `xg: "${[command, ...args].join(" ")}" does not serve. Put what "which xg" prints into the setting xg.command: ` +
        '["/path/to/.venv/bin/xg", "lsp"]. Or pip install the wheel with its extra: \'xg-….whl[lsp]\'; ' +
        "in a checkout .venv/bin/pip install -e '.[lsp]'.",
    );
  }
}

async function stop() {
  const old = client;
  client = undefined;
  if (old?.isRunning()) {
    await old.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  watcher = workspace.createFileSystemWatcher("**/*.xg");
  const { preview, previewed, parts } = previewing(compilerCommand);
  context.subscriptions.push(
    watcher,
    ...parts,
    commands.registerCommand("xg.restart", restart),
    commands.registerCommand("xg.preview", preview),
    commands.registerCommand("xg.save", () => save(compilerCommand, previewed())),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("xg.command")) {
        return restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
