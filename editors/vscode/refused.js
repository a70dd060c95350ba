// The box of a server that does not start: why, and the ways to name another one.
"use strict";

const { ConfigurationTarget, commands, env, window, workspace } = require("vscode");
const { IN_CHECKOUT } = require("./command.js");

const HELP =
  `It needs the extra lsp: in a checkout .venv/bin/pip install -e '.[lsp]', elsewhere pip install 'xg-….whl[lsp]'. ` +
  `Then choose it: in a checkout ${IN_CHECKOUT}, elsewhere what "which xg" prints.`;
const [CHOOSE, OPEN] = ["Choose xg…", "Open the setting"];

/** Ask for the program and write the setting; `restart` is for a program that the setting has already. */
async function choose(restart) {
  const [file] = (await window.showOpenDialog({ title: `The program xg, ${IN_CHECKOUT} in a checkout`, openLabel: "Choose" })) ?? [];
  if (file === undefined) return;
  const settings = workspace.getConfiguration("xg");
  const before = settings.get("command").join("\0");
  const words = [file.fsPath, "lsp"];
  // A folder's own setting would win over that of its user.
  const inFolder = settings.inspect("command")?.workspaceValue !== undefined;
  await settings.update("command", words, inFolder ? ConfigurationTarget.Workspace : ConfigurationTarget.Global);
  if (words.join("\0") === before) await restart();
}

/** Another machine's settings have a tab of their own, and the user's tab does not show this one then. */
function openSetting() {
  const query = "@id:xg.command";
  if (env.remoteName) return commands.executeCommand("workbench.action.openRemoteSettings", { query });
  return commands.executeCommand("workbench.action.openSettings", query);
}

/** Show why the words do not start a server, until it is answered: a box with buttons stays. */
async function explain(words, why, restart) {
  const what = words.length
    ? `"${words.join(" ")}" does not serve${why ? `: ${why}` : ""}.`
    : `there is no xg on the path, and no ${IN_CHECKOUT} in an open folder.`;
  const answer = await window.showErrorMessage(`xg: ${what} ${HELP}`, CHOOSE, OPEN);
  if (answer === CHOOSE) await choose(restart);
  if (answer === OPEN) await openSetting();
}

module.exports = { explain };
