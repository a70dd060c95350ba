// The words that start xg: those of the setting, or, where that is the standard one, the xg that there is.
"use strict";

const { accessSync, constants, existsSync, readFileSync, statSync } = require("node:fs");
const { delimiter, join } = require("node:path");
const { workspace } = require("vscode");

const [PROGRAM, IN_CHECKOUT] = process.platform === "win32"
  ? ["xg.exe", join(".venv", "Scripts", "xg.exe")]
  : ["xg", join(".venv", "bin", "xg")];
// `npm run package:here` packs the path of its checkout; a package for others has none.
const NOTE = join(__dirname, "..", "checkout.txt");

function runs(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The program xg: on the path, else of an open folder, else of the checkout that the extension is from. */
function program() {
  const path = (process.env.PATH ?? "").split(delimiter).filter(Boolean);
  if (path.some((folder) => runs(join(folder, PROGRAM)))) return "xg";
  // A folder that nobody trusts may hold any program.
  const open = workspace.isTrusted ? workspace.workspaceFolders ?? [] : [];
  const checkouts = open.map(({ uri }) => uri.fsPath);
  if (existsSync(NOTE)) checkouts.push(readFileSync(NOTE, "utf8"));
  return checkouts.map((folder) => join(folder, IN_CHECKOUT)).find(runs);
}

/** The words that start the server; none where there is no xg. */
function serverCommand() {
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const words = workspace.getConfiguration("xg").get("command");
  if (words.join(" ") !== "xg lsp") return words.map((word) => word.replaceAll("${workspaceFolder}", folder));
  const found = program();
  return found === undefined ? [] : [found, "lsp"];
}

/** The same command, without what makes it a server. */
function compilerCommand() {
  const words = serverCommand();
  if (!words.length) return ["xg"];
  return words.at(-1) === "lsp" ? words.slice(0, -1) : words;
}

module.exports = { IN_CHECKOUT, compilerCommand, serverCommand };
