// Makes pictures of the dashboard of a demo that it starts and ends:
//
//	node pictures.cjs SLUICE DATA-DIRECTORY DIRECTORY
const fs = require("node:fs");
const { chromium } = require("playwright-core");
const demo = require("./demo.cjs");

const [sluice, data, directory] = process.argv.slice(2);
const maxBytes = 150_000; // of a picture
const password = "correct horse battery";

const ask = (page, path) => page.evaluate(async (path) => (await fetch(path)).json(), path);

async function picture(page, path, name) {
  await page.goto(new URL(path, page.url()).href);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.getByText("Loading", { exact: true }).first().waitFor({ state: "detached" });
  await page.waitForTimeout(1500); // the overview comes once a second
  const cdp = await page.context().newCDPSession(page);
  const { data } = await cdp.send("Page.captureScreenshot", { format: "webp", quality: 80 });
  const bytes = Buffer.from(data, "base64");
  if (bytes.length > maxBytes) throw new Error(`${name} has ${bytes.length} bytes, more than ${maxBytes}`);
  fs.writeFileSync(`${directory}/${name}.webp`, bytes);
  console.log(`${name}.webp: ${bytes.length} bytes`);
}

async function take(page, link) {
  await page.goto(link);
  await page.getByLabel("Name").fill("ann@example.com");
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByLabel("Password again").fill(password);
  await page.getByRole("button", { name: "Make the account" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  // Somebody who has clicked in a mail and done more since.
  const person = await demo.until("somebody who has clicked", async () => {
    const { sends } = await ask(page, "/v1/sends?state=sent&limit=200");
    for (const send of sends.filter((s) => s.first_click && s.user_id && s.journey)) {
      const { entries } = await ask(page, `/v1/users/${encodeURIComponent(send.user_id)}/timeline`);
      const kinds = new Set(entries?.map((e) => e.kind));
      if (entries.length >= 6 && kinds.has("event") && kinds.has("journey")) return send;
    }
  });
  await demo.until("conversions", async () => Object.values((await ask(page, "/v1/journeys/welcome")).counts?.conversions ?? {}).some((n) => n > 50));
  const { users } = await ask(page, `/v1/users?q=${encodeURIComponent(person.user_id)}`);
  await picture(page, "/", "overview");
  await picture(page, `/people/${users[0].braze_id}`, "person");
  await picture(page, `/messages/${person.message}`, "message");
  await picture(page, "/journeys/welcome", "journey");
}

(async () => {
  const { child, link } = await demo.start(sluice, data, "--people", "20000", "--rate", "400", "--for", "10m");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", reducedMotion: "reduce" });
    await take(await context.newPage(), link);
  } finally {
    await browser.close();
    await demo.end(child);
  }
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
