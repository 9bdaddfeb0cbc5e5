// Measures the dashboard of a demo that it starts and ends with Lighthouse:
//
//	node lighthouse.cjs SLUICE DATA-DIRECTORY FILE RUNS
//
// FILE gets the record, as those of sluice-bench are. What lowers a score goes to stderr.
const fs = require("node:fs");
const os = require("node:os");
const { execFileSync } = require("node:child_process");
const { pathToFileURL } = require("node:url");
const puppeteer = require("puppeteer-core");
const demo = require("./demo.cjs");

const [sluice, data, file, times] = process.argv.slice(2);
const password = "correct horse battery";
const flags = ["--people", "5000", "--rate", "50", "--for", "60m"];
const leastMails = 200; // there are so many, before anything is measured
const all = ["performance", "accessibility", "best-practices"];
const least = { desktop: { performance: 95, accessibility: 95, "best-practices": 95 }, mobile: { performance: 75 } };
const mostAgain = 2; // visits more of a page, where Lighthouse itself fails
const mostBytes = 250_000; // that the first page and all it asks for have on their way
const pages = [["sign-in", "/sign-in"], ["overview", "/"], ["people", "/people?q=person-1"], ["messages", "/messages"], ["journeys", "/journeys"]];

/** signUp makes the first account, and returns the cookie of its session. */
async function signUp(link) {
  const { origin, hash } = new URL(link);
  const answer = await fetch(`${origin}/v1/setup`, {
    method: "POST", headers: { "Content-Type": "application/json", Origin: origin },
    body: JSON.stringify({ token: hash.slice(1), name: "ann@example.com", password }),
  });
  if (!answer.ok) throw new Error(`make the first account: ${answer.status} ${await answer.text()}`);
  const [name, value] = answer.headers.getSetCookie()[0].split(";")[0].split("=");
  return { name, value };
}

/** visit opens a page of its own, and returns what Lighthouse finds. */
async function visit(browser, lighthouse, config, cookie, url, categories) {
  const context = await browser.createBrowserContext();
  try {
    const page = await context.newPage();
    if (cookie) await page.setCookie({ ...cookie, url, httpOnly: true });
    return (await lighthouse(url, { onlyCategories: categories, logLevel: "error" }, config, page)).lhr;
  } finally {
    await context.close();
  }
}

/** measure visits a page once, and again if the browser's trace was not whole; it returns the scores, and the bytes that it has loaded. */
async function measure(look, url, categories, where) {
  let lhr = await look();
  for (let again = 0; lhr.runtimeError && again < mostAgain; again++) {
    console.error(`${where}: ${lhr.runtimeError.message}`);
    lhr = await look();
  }
  if (lhr.runtimeError) throw new Error(`${where}: ${lhr.runtimeError.message}`);
  if (new URL(lhr.finalDisplayedUrl).pathname !== new URL(url).pathname) throw new Error(`${where} has led to ${lhr.finalDisplayedUrl}`);
  const scores = {};
  for (const category of categories) {
    const { score, auditRefs } = lhr.categories[category];
    scores[category] = Math.round(score * 100);
    const lowered = auditRefs.filter((r) => r.weight > 0 && lhr.audits[r.id].score !== null && lhr.audits[r.id].score < 0.9);
    console.error(`${where} ${category} ${scores[category]} ${lowered.map((r) => `${r.id}: ${lhr.audits[r.id].displayValue ?? lhr.audits[r.id].title}`).join("; ")}`);
  }
  const requests = lhr.audits["network-requests"]?.details?.items ?? [];
  return { scores, bytes: requests.reduce((sum, r) => sum + (r.transferSize ?? 0), 0) };
}

/** measureAll visits every page so often, each once a round, and returns the values of each row. */
async function measureAll(browser, origin, cookie) {
  const { default: lighthouse, desktopConfig } = await import(pathToFileURL(require.resolve("lighthouse")));
  const rows = new Map();
  const note = (id, label, unit, value) => rows.set(id, { id, label, unit, runs: [...(rows.get(id)?.runs ?? []), value] });
  for (let run = 0; run < Number(times); run++) {
    for (const [name, path] of pages) {
      for (const form of Object.keys(least)) {
        const categories = form === "desktop" ? all : ["performance"];
        const look = () => visit(browser, lighthouse, form === "desktop" ? desktopConfig : undefined, name === "sign-in" ? undefined : cookie, origin + path, categories);
        const { scores, bytes } = await measure(look, origin + path, categories, `${name} ${form}`);
        for (const category of categories) note(`${name}_${form}_${category}`, `${name}, ${form}: ${category}`, "of 100", scores[category]);
        if (form === "desktop") note(`${name}_bytes`, `${name}: all that a first visit loads`, "bytes", bytes);
      }
    }
  }
  return [...rows.values()].map((row) => ({ ...row, value: row.runs.toSorted((a, b) => a - b)[Math.floor(row.runs.length / 2)] }));
}

/** figuresOf compares rows with what is asked of them. */
function figuresOf(rows) {
  return rows.map(({ id, value }) => {
    const [page, form, category] = id.split("_");
    const limit = category ? least[form][category] : mostBytes;
    const passed = category ? value >= limit : value <= limit;
    return { name: `${page}_${form}${category ? `_${category}` : ""}`, value, limit: `${category ? ">=" : "<="} ${limit}`, verdict: passed ? "passed" : "missed" };
  });
}

function record(rows, figures, chromium) {
  const { version } = JSON.parse(fs.readFileSync(require.resolve("lighthouse/package.json"), "utf8"));
  return {
    bench: "lighthouse", at: new Date().toISOString().replace(/\.\d+/, ""),
    machine: { cpu: os.cpus()[0].model, cores: os.cpus().length, memory_mb: Math.floor(os.totalmem() / 2 ** 20), kernel: os.release(), system: `${os.platform()}/${os.arch()}` },
    versions: { chromium, lighthouse: version, node: process.version, sluice: execFileSync(sluice, ["version"], { encoding: "utf8" }).trim() },
    settings: { demo: flags.join(" "), runs: times, throttling: "simulated, as Lighthouse presets it: desktop 40 ms and 10 Mbit/s, mobile 150 ms, 1.6 Mbit/s and a CPU that is 4 times slower" },
    rows, figures,
  };
}

(async () => {
  const { child, link } = await demo.start(sluice, data, ...flags);
  const { origin } = new URL(link);
  const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  let rows, chromium;
  try {
    chromium = await browser.version();
    const cookie = await signUp(link);
    const ask = async (path) => (await fetch(origin + path, { headers: { Cookie: `${cookie.name}=${cookie.value}` } })).json();
    await demo.until(`${leastMails} mails`, async () => (await ask(`/v1/sends?state=sent&limit=${leastMails}`)).sends?.length >= leastMails);
    rows = await measureAll(browser, origin, cookie);
  } finally {
    await browser.close();
    await demo.end(child);
  }
  const figures = figuresOf(rows);
  fs.writeFileSync(file, `${JSON.stringify(record(rows, figures, chromium), null, 2)}\n`);
  const missed = figures.filter((f) => f.verdict === "missed");
  for (const f of missed) console.error(`${f.name} is ${f.value}, asked is ${f.limit}`);
  if (missed.length > 0) process.exit(1);
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
