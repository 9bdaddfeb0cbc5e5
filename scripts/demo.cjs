// A demo that a script starts and ends.
const { spawn } = require("node:child_process");

const patience = 240_000; // ms, for the demo to have something to show

/** start starts a demo, and returns it with the link that makes the first account. */
function start(sluice, data, ...flags) {
  const child = spawn(sluice, ["demo", "--data", data, "--listen", "127.0.0.1:0", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  return new Promise((resolve, reject) => {
    let said = "";
    child.on("error", reject);
    child.on("exit", () => reject(new Error(`the demo has ended: ${said}`)));
    child.stderr.on("data", (text) => {
      said += text;
      const link = /http:\/\/\S+\/setup#\S+/.exec(said);
      if (link) resolve({ child, link: link[0] });
    });
  });
}

/** end ends a demo, and waits for it. */
function end(child) {
  child.removeAllListeners("exit");
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  child.kill("SIGINT");
  return new Promise((resolve) => child.on("exit", resolve));
}

/** until asks again and again until there is an answer. */
async function until(what, find) {
  for (const last = Date.now() + patience; Date.now() < last; await new Promise((r) => setTimeout(r, 2000))) {
    const found = await find();
    if (found) return found;
  }
  throw new Error(`${what}: not within ${patience / 1000} s`);
}

module.exports = { start, end, until };
