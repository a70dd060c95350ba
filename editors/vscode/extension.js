// Starts `xg lsp` for .xg files, says what to do where that does not work, shows previews and saves figures.
"use strict";

const { commands, workspace } = require("vscode");
const { CloseAction, ErrorAction, LanguageClient, TransportKind } = require("vscode-languageclient/node");
const { compilerCommand, serverCommand } = require("./command.js");
const { previewing } = require("./preview.js");
const { explain } = require("./refused.js");
const { save } = require("./save.js");

const LATE = 500; // milliseconds

/** @type {Client | undefined} */
let client;
/** @type {import("vscode").FileSystemWatcher} */
let watcher; // files that nobody has open may be used by one that is
let turn = Promise.resolve(); // starts and stops follow one another

/** A client that shows no boxes of its own until its server serves: there is one that says what to do. */
class Client extends LanguageClient {
  constructor(command, args) {
    const server = { command, args, transport: TransportKind.stdio };
    const said = { last: "", ended: Promise.resolve() };
    super("xg", "xg", server, {
      documentSelector: [
        { scheme: "file", language: "xg" },
        { scheme: "untitled", language: "xg" },
      ],
      synchronize: { fileEvents: watcher },
      stdioOptions: {
        stdout: () => {},
        stderr: (stream, channel) => {
          said.ended = new Promise((resolve) => stream.on("close", resolve));
          stream.on("data", (data) => {
            said.last = data.toString().trim().split("\n").at(-1) || said.last;
            channel.error(data.toString().trimEnd());
          });
        },
      },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: (...how) => (this.serves ? this.lost.error(...how) : { action: ErrorAction.Continue, handled: true }),
        closed: () => (this.serves ? this.lost.closed() : { action: CloseAction.DoNotRestart, handled: true }),
      },
    });
    this.said = said;
    this.lost = this.createDefaultErrorHandler();
    this.serves = false;
  }

  async start() {
    await super.start();
    this.serves = true;
  }

  /** The last line of a server that did not start, which may come after its end is known, or the error. */
  async why(error) {
    await Promise.race([this.said.ended, new Promise((resolve) => setTimeout(resolve, LATE))]);
    return this.said.last || error.message;
  }

  error(message, data, show) {
    super.error(message, data, this.serves && show);
  }
}

async function start() {
  const words = serverCommand();
  const [command, ...args] = words;
  if (command === undefined) {
    explain(words, "", restart);
    return;
  }
  const begun = new Client(command, args);
  client = begun;
  try {
    await begun.start();
  } catch (error) {
    // A window that is being loaded may get its settings while the standard command is tried.
    if (serverCommand().join("\0") !== words.join("\0")) return start();
    explain(words, await begun.why(error), restart);
  }
}

async function stop() {
  const old = client;
  client = undefined;
  if (old?.isRunning()) {
    await old.stop();
  }
}

function inTurn(work) {
  turn = turn.then(work, work);
  return turn;
}

function restart() {
  return inTurn(async () => {
    await stop();
    await start();
  });
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
    workspace.onDidGrantWorkspaceTrust(() => client?.isRunning() || restart()),
  );
  await inTurn(start);
}

module.exports = { activate, deactivate: () => inTurn(stop) };
