// What the scripts that drive the dashboard share: pages of Chromium in which nothing may go
// wrong unseen, and steps. A script is started with
//
//	URL SETUP-LINK [DIRECTORY FOR SCREENSHOTS]
const fs = require("node:fs");
const assert = require("node:assert/strict");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [url, link, shots] = process.argv.slice(2);
const password = "correct horse battery";
const evil = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;
const faults = []; // what no page may do, in any step
const patience = 240_000; // ms; bounds a wait for what happens soon, on a machine that is busy

// What a mail tries in its frame is refused, and the console tells of it.
const refusedToMail = /(Blocked script execution in|Loading the image) '[^']*\/v1\/mailboxes\/\d+\/(view|x)/;

// The same browser without its own menus and tabs, where there is one: these take several
// times as long as the pages, for each context anew. Its language would be the environment's.
const bare = "/usr/bin/chromium-headless-shell";
const browserArgs = (path) => ["--no-sandbox", ...(path === bare ? ["--accept-lang=en-US"] : [])];
const launch = (path = process.env.CHROMIUM ?? (fs.existsSync(bare) ? bare : "/usr/bin/chromium")) => chromium.launch({ executablePath: path, args: browserArgs(path), timeout: patience });

async function open(browser, width, scheme) {
  const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme: scheme, reducedMotion: "reduce" });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.on("pageerror", (e) => faults.push(`${page.url()}: ${e}`));
  page.on("dialog", (d) => { faults.push(`${page.url()}: a dialog`); void d.dismiss(); });
  page.on("console", (m) => { // 503: on a busy machine a session may not be looked up in time
    if (m.type() === "error" && !/status of (401|403|404|409|503)/.test(m.text()) && !refusedToMail.test(m.text())) faults.push(`${page.url()}: ${m.text()}`);
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(url) && !r.url().startsWith("data:")) faults.push(`${page.url()} asks ${r.url()}`);
  });
  return page;
}

async function step(name, act) {
  const began = Date.now();
  try {
    await act();
  } catch (e) {
    console.log(`FAIL ${name}: ${e.stack}`);
    process.exit(1);
  }
  if (faults.length > 0) {
    console.log(`FAIL ${name}: ${faults.join("\n")}`);
    process.exit(1);
  }
  console.log(`ok ${name}\n  in ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

/** until waits for a condition of what is not in a page. */
async function until(holds, why) {
  for (const end = Date.now() + patience; !(await holds());) {
    assert.ok(Date.now() < end, why);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const heading = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();

async function signIn(page, name) {
  await page.goto(`${url}/sign-in`);
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(password);
  await page.keyboard.press("Enter");
  await heading(page, "Overview");
}

/** ask makes a call of the API in the page until its status is not 503, and returns the answer. */
async function ask(page, method, path, body) {
  let answer;
  await until(async () => {
    answer = await page.evaluate(async ([method, path, body]) => {
      const answer = await fetch(path, { method, headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
      return { status: answer.status, body: await answer.json().catch(() => undefined) };
    }, [method, path, body]);
    return answer.status !== 503;
  }, `${method} ${path} is answered 503`);
  return answer;
}

async function judged(page, where) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  // Of what is right nothing is told: to describe each of its elements takes longer than to look at them.
  const { violations } = await page.evaluate(() => globalThis.axe.run({ exclude: [["iframe"]] }, { resultTypes: ["violations"] }));
  const found = violations.map((v) => `${where}: ${v.id}: ${v.nodes.map((n) => n.html.slice(0, 200)).join(" ")}`);
  const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return beyond > 0 ? [...found, `${where} is ${beyond} pixels wider than the window`] : found;
}

/** as opens a page that is signed in as another is. */
async function as(browser, page, width = 1280) {
  const at = await open(browser, width, "light");
  await at.context().addCookies((await page.context().storageState()).cookies);
  return at;
}

/** forgive takes faults out that a step has made on purpose. */
const forgive = (made) => faults.splice(0, faults.length, ...faults.filter((f) => !made.test(f)));

const accessible = async (page, where) => assert.deepEqual(await judged(page, where), []);

module.exports = { url, link, shots, password, evil, faults, patience, launch, open, step, until, heading, signIn, ask, judged, as, forgive, accessible };
