// Drives the dashboard of a running program in Chromium, for TestDashboard:
//
//	node dashboard.cjs URL SETUP-LINK [DIRECTORY FOR SCREENSHOTS]
//
// It prints "ok STEP" for each step, and ends at the first that fails.
const fs = require("node:fs");
const http = require("node:http");
const net = require("node:net");
const assert = require("node:assert/strict");
const { url, link, shots, password, evil, faults, patience, launch, open, step, until, heading, signIn, ask, judged, as, forgive, accessible } = require("./dashboard_kit.cjs");

const mostBytes = 250_000; // of a page and all that it asks for, as they are on their way

/** cutting passes requests on to the server. Answers of paths that match it ends in the middle of their bodies, and their connections with them. */
async function cutting(paths) {
  const server = http.createServer((req, res) => {
    const onward = http.request(url + req.url, { method: req.method, headers: req.headers }, async (from) => {
      res.writeHead(from.statusCode, from.headers);
      if (!paths.test(req.url)) return void from.pipe(res);
      const body = Buffer.concat(await from.toArray());
      res.write(body.subarray(0, body.length / 2), () => res.destroy());
    });
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => { server.close(); server.closeAllConnections(); } };
}

/** unreached visits a page by the Tab key alone, and returns what can be pressed or filled in there and is not reached, or not seen to be. */
async function unreached(browser, page, path, width, tries = 3) {
  const at = await as(browser, page, width);
  await at.goto(url + path);
  await at.getByRole("heading", { level: 1 }).waitFor();
  await at.getByText("Loading", { exact: true }).first().waitFor({ state: "detached" });
  const wanted = await at.evaluate(() => {
    const all = [...document.querySelectorAll("a, button, input, select, textarea, summary, [onclick], [role=button], [role=menuitem]")].filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled);
    all.forEach((e, i) => { e.dataset.place = i; });
    return all.map((e) => e.outerHTML.slice(0, 120));
  });
  const wrong = [];
  const reached = new Set();
  for (let i = 0; i < wanted.length + 20 && reached.size < wanted.length; i++) {
    await at.keyboard.press("Tab");
    const found = await at.evaluate(() => {
      const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
      const drawn = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
      return { place: e.dataset.place, html: e.outerHTML.slice(0, 120), seen: drawn && box.width > 0 && box.left >= 0 && box.right <= innerWidth && box.bottom > 0 && box.top < innerHeight };
    });
    if (found.place !== undefined) reached.add(Number(found.place));
    if (!found.seen && !found.html.startsWith("<body")) wrong.push(`${path} ${width}: the focus is not seen on ${found.html}`);
  }
  await at.context().close();
  wrong.push(...wanted.filter((_, i) => !reached.has(i)).map((html) => `${path} ${width}: the Tab key does not reach ${html}`));
  // A page that is drawn anew meanwhile loses what was counted; one that is wrong is so each time.
  return wrong.length > 0 && tries > 1 ? unreached(browser, page, path, width, tries - 1) : wrong;
}

(async () => {
  const browser = await launch();
  const page = await open(browser, 1280, "light");

  await step("first run", async () => {
    await page.goto(link);
    await heading(page, "Make the first account");
    assert.ok(!page.url().includes("#"), "the link's secret stays in the address bar");
    await accessible(page, "setup");
    await page.getByLabel("Name").fill("Ann@example.com");
    await page.getByLabel("Password", { exact: true }).fill(password);
    await page.getByLabel("Password again").fill(password);
    await page.getByRole("button", { name: "Make the account" }).click();
    await heading(page, "Overview");
  });
  await step("the link works once", async () => {
    const again = await open(browser, 1280, "light");
    await again.goto(link);
    await again.getByLabel("Name").fill("eve@example.com");
    await again.getByLabel("Password", { exact: true }).fill(password);
    await again.getByLabel("Password again").fill(password);
    await again.getByRole("button", { name: "Make the account" }).click();
    await again.getByRole("alert").getByText("This link was used").waitFor();
    await again.context().close();
  });
  await step("sign in", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await heading(page, "Sign in");
    await accessible(page, "sign-in");
    await page.getByLabel("Name").fill("ann@example.com");
    await page.getByLabel("Password").fill("wrong horse battery");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("Name or password is wrong").waitFor();
    await signIn(page, "ann@example.com");
  });
  await step("overview", async () => {
    await page.getByText("answers").first().waitFor();
    await page.getByRole("button", { name: "Stop marketing mail" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Stop marketing mail" }).click();
    await page.getByText("Marketing mail is stopped").waitFor();
    await page.getByRole("button", { name: "Resume marketing mail" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Resume marketing mail" }).click();
    await page.getByText("Marketing mail is stopped").waitFor({ state: "detached" });
  });
  await step("the brake", async () => {
    const brake = async (what) => {
      await page.getByRole("button", { name: `${what} marketing mail` }).click();
      await page.getByRole("alertdialog").getByRole("button", { name: `${what} marketing mail` }).click();
    };
    await brake("Stop");
    await page.getByText("Marketing mail is stopped").waitFor();
    await brake("Resume");
    await page.getByRole("button", { name: "Stop marketing mail" }).waitFor();
    await ask(page, "POST", "/v1/sending/pause", { by: "all" });
    await brake("Resume"); // it would let transactional mail go on, too
    await page.getByText("It is stopped along with other mail").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await ask(page, "POST", "/v1/sending/resume", { by: "all" });
    await page.getByRole("button", { name: "Stop marketing mail" }).waitFor();
  });
  await step("a question that somebody else has answered meanwhile", async () => {
    for (const [asked, other] of [["Stop", "pause"], ["Resume", "resume"]]) {
      await page.getByRole("button", { name: `${asked} marketing mail` }).click();
      const dialog = page.getByRole("alertdialog");
      await dialog.waitFor();
      await ask(page, "POST", `/v1/sending/${other}`, { by: "class", value: "marketing" });
      await dialog.waitFor({ state: "detached" }); // it would ask the opposite, and do it
    }
    await page.getByRole("button", { name: "Stop marketing mail" }).waitFor();
  });
  await step("what is stopped", async () => {
    await ask(page, "POST", "/v1/sending/pause", { by: "tag", value: `spring ${evil}`, class: "marketing", note: "wrong prices" });
    await page.goto(url);
    const row = page.getByRole("region", { name: "Stopped mail" }).getByRole("row").filter({ hasText: `mail of the tag spring ${evil}, marketing alone` });
    await row.getByText("wrong prices").waitFor();
    await accessible(page, "what is stopped");
    await row.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Resume" }).click();
    await page.getByRole("alertdialog").waitFor({ state: "detached" }); // until then nothing else has a role
    await page.getByRole("region", { name: "Stopped mail" }).waitFor({ state: "detached" });
    assert.deepEqual((await ask(page, "GET", "/v1/sending")).body.stopped, []);
  });
  await step("a message is cancelled", async () => {
    const time = "2026-01-31T10:00:00Z";
    const send = { send: "m.0", message: "m", to: "held@example.com", from: "shop@example.com", state: "waiting", class: "marketing", priority: "normal", tags: "", attempts: 0, accepted: time, updated: time, life: [] };
    const at = await as(browser, page);
    await at.route(/\/v1\/sends\?message=m$/, (r) => r.fulfill({ json: { sends: [send] } }));
    await at.route(/\/v1\/messages\/m$/, (r) => { send.state = "cancelled"; return r.fulfill({ json: { cancelled: 1, left: 0, open: 0 } }); });
    await at.goto(`${url}/messages/m`);
    await at.getByRole("button", { name: "Cancel the message" }).click();
    await at.getByRole("alertdialog").getByRole("button", { name: "Cancel the message" }).click();
    await at.getByRole("status").getByText("1 cancelled, 0 too late.").waitFor();
    await at.getByRole("button", { name: "Cancel the message" }).waitFor({ state: "detached" });
    await at.getByText("cancelled", { exact: true }).first().waitFor();
    await at.context().close();
  });
  await step("a message of many recipients", async () => {
    const time = "2026-01-31T10:00:00Z";
    const sends = Array.from({ length: 1000 }, (_, i) => ({
      send: `m.${i}`, message: "m", to: `person-${i}@example.com`, from: "shop@example.com", state: i < 7 ? "failed" : "sent", class: "marketing", priority: "normal", tags: "", attempts: 1, accepted: time, updated: time, life: [{ at: time, event: "sent" }],
    }));
    const at = await as(browser, page);
    await at.route(/\/v1\/sends\?message=m$/, (r) => r.fulfill({ json: { sends } }));
    await at.goto(`${url}/messages/m`);
    await at.getByText("1,000: 7 failed, 993 sent").waitFor();
    const panels = at.getByRole("heading", { name: /^person-/ });
    assert.equal(await panels.count(), 50);
    await at.getByRole("button", { name: "More of 1,000 recipients" }).press("Enter");
    await at.getByText("person-99@example.com").waitFor();
    assert.equal(await panels.count(), 100);
    assert.equal(await at.getByRole("button", { name: "Cancel the message" }).count(), 0, "what has left can be cancelled");
    await at.context().close();
  });
  await step("find a person", async () => {
    await page.getByRole("link", { name: "People" }).click();
    await page.getByLabel("Id or address").fill("EVE@ex");
    await page.keyboard.press("Enter");
    await page.getByRole("cell", { name: "address", exact: true }).waitFor();
    await page.getByRole("table").getByRole("link").first().click();
    await page.getByRole("heading", { name: "What happened" }).waitFor();
    await page.getByText(evil).first().waitFor();
    await page.getByText("Mail to eve@example.com").waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined, "a script in a name was run");
  });
  await step("a timeline by kind", async () => {
    const entries = page.getByRole("list", { name: "What happened" });
    await entries.getByText(`shelf ${evil}`).waitFor();
    await accessible(page, "a person");
    const all = await entries.getByRole("listitem").allTextContents();
    assert.equal(all.length, 4, all.join("\n"));
    for (const what of ["Mail to eve", "Became known", "Group news", "looked"]) assert.ok(all.some((text) => text.startsWith(what)), `${what}: ${all.join("\n")}`);
    for (const [kind, what] of [["event", "looked"], ["mail", "Mail to"], ["change", "Became known"], ["consent", "Group news"]]) {
      await page.getByLabel("Show").selectOption(kind);
      await entries.getByText(what).waitFor();
      assert.equal(await entries.getByRole("listitem").count(), 1, kind);
    }
    await page.getByLabel("Show").selectOption("journey");
    await page.getByText("Nothing is known yet").waitFor();
  });
  await step("a person is erased", async () => {
    for (const attributes of [{ external_id: "gone", email: "gone@example.com" }, { external_id: "before" }]) {
      assert.equal((await ask(page, "POST", "/users/track/sync", { attributes: [attributes] })).status, 201);
    }
    const found = async () => (await ask(page, "GET", "/v1/users?q=gone@example.com")).body.users;
    // The page of an id that was merged into another person is that of the other one, and erases it.
    const [{ braze_id: before }] = (await ask(page, "GET", "/v1/users?q=before")).body.users;
    const merge = { identifier_to_merge: { external_id: "before" }, identifier_to_keep: { external_id: "gone" } };
    assert.equal((await ask(page, "POST", "/users/merge", { merge_updates: [merge] })).status, 202);
    const unmerged = async () => (await ask(page, "GET", "/v1/users?q=before")).body.users.some((u) => u.braze_id === before);
    await until(async () => !(await unmerged()), "the person is not merged");
    await page.goto(`${url}/people/${before}`);
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download as JSON" }).click()]);
    assert.equal(JSON.parse(fs.readFileSync(await file.path(), "utf8")).external_id, "gone");
    await page.getByRole("button", { name: "Erase" }).click();
    const dialog = page.getByRole("alertdialog");
    await dialog.getByText("Erase gone?").waitFor();
    await accessible(page, "the question before erasing");
    await dialog.getByRole("button", { name: "Erase the person" }).click();
    await page.getByText("The person is erased").waitFor();
    await until(async () => (await found()).length === 0, "the person is still found");
  });
  await step("suppress an address", async () => {
    await page.goto(`${url}/suppressions`);
    await page.getByRole("button", { name: "Suppress an address" }).click();
    await page.getByLabel("Address, or a domain").fill("mallory@example.com");
    await page.getByRole("button", { name: "Suppress", exact: true }).click();
    await page.getByRole("cell", { name: "mallory@example.com" }).waitFor();
    assert.equal((await ask(page, "POST", "/v1/suppressions", { suppressions: [{ entry: "mallory@example.com", scope: "all", app_id: "shop" }] })).status, 200);
    await page.getByRole("row", { name: "mallory@example.com" }).getByRole("button", { name: "Remove" }).click();
    await page.getByRole("alertdialog").getByText("manual, all mail. This alone is removed").waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
    const left = page.getByRole("row", { name: /mallory@example\.com manual all mail shop/ });
    await left.getByRole("button", { name: "Remove" }).click(); // that of the app is still there
    await page.getByRole("alertdialog").getByText("all mail of the app shop").waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("Nobody is suppressed").waitFor();
  });
  await step("an address that its domain holds back", async () => {
    const add = { suppressions: [{ entry: "example.com" }, { entry: "old@example.org", ends: "2026-01-31T10:00:00Z" }] };
    assert.equal((await ask(page, "POST", "/v1/suppressions", add)).status, 200);
    const held = () => ask(page, "POST", "/v1/suppressions/check", { addresses: ["eve@example.com"], class: "transactional" });
    await until(async () => (await held()).body.results[0].suppressed, "the domain holds nothing back");
    await page.goto(`${url}/suppressions?entry=eve@example.com`);
    await page.getByText("Mail to eve@example.com is held back by its domain: manual, all mail.").waitFor();
    await page.getByText("The address itself is not suppressed").waitFor();
    const { body } = await ask(page, "GET", "/v1/users?q=eve@");
    await page.goto(`${url}/people/${body.users[0].braze_id}`);
    await page.getByText("by its domain: manual, all mail").waitFor();
    await accessible(page, "a person whose domain is suppressed");
    await page.getByRole("main").getByRole("link", { name: "Suppressions" }).click();
    await heading(page, "Suppressions");
    await page.goto(`${url}/suppressions?entry=old@example.org`);
    await page.getByRole("row", { name: /old@example\.org ended/ }).waitFor();
    await ask(page, "POST", "/v1/suppressions/remove", { entries: ["example.com", "old@example.org"] });
  });
  await step("read a mail", async () => {
    await page.goto(`${url}/mailbox`);
    await page.getByRole("table").getByRole("link").first().click();
    const mail = page.frameLocator("iframe");
    await mail.getByText("Hello Eve").waitFor();
    const frame = page.frames().find((f) => f.url().endsWith("/view"));
    assert.equal(await frame.evaluate(() => document.title), "unhurt", "a script in a mail was run");
    await page.getByRole("button", { name: "Show the source" }).click();
    await page.getByText("Subject:").waitFor();
    await page.getByRole("link", { name: "What became of it" }).click();
    await page.getByText("sent").first().waitFor();
    // A mail's own script is refused by its policy, and says so.
    forgive(/Blocked script execution|sandbox|Refused to|violates the following Content Security Policy/);
  });
  const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  const csvOf = (name, rows, more = "") => {
    const time = (i) => `${day}T${[i / 3600, (i / 60) % 60, i % 60].map((n) => String(Math.floor(n)).padStart(2, "0")).join(":")}Z`;
    const lines = Array.from({ length: rows }, (_, i) => `seen ${name};${i === 2 ? "soon" : time(i)};u${i % 50};"two\nlines ${evil.replaceAll('"', '""')}${more}";hidden`);
    return { name: `${name}.csv`, mimeType: "text/csv", buffer: Buffer.from(["action;when;user;note;secret", ...lines, ""].join("\r\n")) };
  };
  const fileInput = page.getByLabel(/^Choose /);
  let imported;
  await step("import a file", async () => {
    await page.getByRole("link", { name: "Imports" }).click();
    await heading(page, "Imports");
    await page.getByText("Nothing was imported here").waitFor();
    await accessible(page, "imports");
    await fileInput.setInputFiles({ name: "list.json", mimeType: "application/json", buffer: Buffer.from("[{}]") });
    await page.getByRole("alert").getByText("JSON array").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    faults.splice(0, faults.length, ...faults.filter((f) => !/status of 400/.test(f))); // the console tells of it, too
    await fileInput.setInputFiles(csvOf("old", 2000));
    assert.equal(await page.getByLabel("What action becomes").inputValue(), "event");
    assert.equal(await page.getByLabel("What when becomes").inputValue(), "time");
    await page.getByLabel("What secret becomes").selectOption("");
    const first = page.getByRole("region", { name: "First lines" });
    await first.getByText("hidden").first().waitFor({ state: "detached" });
    await first.getByRole("cell", { name: "seen old" }).first().waitFor();
    await page.getByRole("region", { name: "Refused lines" }).getByText('time not understood: "soon"').waitFor();
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 844 });
      await accessible(page, `a preview ${width}`);
      if (shots) await page.screenshot({ path: `${shots}/_preview-${width}.png`, fullPage: true });
    }
    await page.getByLabel("What when becomes").selectOption("\u0000as it is");
    await page.getByText("No line would be taken").waitFor();
    assert.ok(await page.getByRole("button", { name: "Start the import" }).isDisabled(), "an import of nothing can be started");
    await page.getByLabel("What when becomes").selectOption("time");
    await first.getByRole("cell", { name: "seen old" }).first().waitFor();
    await page.getByLabel("App, of events that name none").fill("shop");
    await page.getByRole("button", { name: "Start the import" }).click();
    await heading(page, "old.csv");
    imported = page.url().split("/").pop();
    await page.getByText("done", { exact: true }).waitFor();
    await page.locator("dt", { hasText: "In the database now" }).waitFor();
    assert.equal(await page.getByRole("progressbar").getAttribute("aria-valuenow"), "100");
    await accessible(page, "an import");
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download as CSV" }).click()]);
    assert.equal(download.suggestedFilename(), "old.csv.refused.csv");
    assert.match(fs.readFileSync(await download.path(), "utf8"), /^line,reason\r\n6,"time not understood: ""…""/);
    assert.equal(await page.evaluate(() => window.hacked), undefined, "a script in a file was run");
  });
  await step("an import goes on", async () => {
    await page.goto(`${url}/imports`);
    const file = csvOf("more", 3000, "m".repeat(1000)); // four pieces
    await fileInput.setInputFiles(file);
    let pieces = 0;
    await page.route(/\/pieces\?/, (r) => (pieces++ === 0 ? r.continue() : r.abort("connectionreset")));
    await page.getByRole("button", { name: "Start the import" }).click();
    await heading(page, "more.csv");
    await page.getByText("It is tried again by itself").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.unroute(/\/pieces\?/);
    await page.reload();
    await page.getByText("It goes on at byte", { exact: false }).waitFor();
    await fileInput.setInputFiles(csvOf("more", 10));
    await page.getByRole("alert").getByText("This file has").waitFor();
    await accessible(page, "an import that stands");
    await fileInput.setInputFiles(file);
    await page.getByText("done", { exact: true }).waitFor();
    faults.splice(0, faults.length, ...faults.filter((f) => !/ERR_CONNECTION_RESET/.test(f)));
    const id = page.url().split("/").pop();
    await page.locator("dt", { hasText: "In the database now" }).waitFor();
    const { body } = await ask(page, "GET", `/v1/imports/${id}/events`);
    assert.deepEqual(body, { events: 2999, whole: true, still_to_be_stored: 0 });
  });
  await step("an import undone", async () => {
    await page.goto(`${url}/imports/${imported}`);
    await page.getByRole("button", { name: "Undo" }).click();
    const dialog = page.getByRole("alertdialog");
    await dialog.getByText("1,999 events").waitFor();
    await accessible(page, "the question before undoing");
    await dialog.getByRole("button", { name: "Cancel" }).press("Tab");
    await page.keyboard.press("Enter"); // on the button that undoes
    await page.getByText("undone", { exact: true }).waitFor();
    await page.locator("dt", { hasText: "Removed again" }).waitFor();
    const { body } = await ask(page, "GET", `/v1/imports/${imported}/events`);
    assert.equal(body.events, 0);
    await page.getByRole("link", { name: "All imports" }).click();
    await page.getByRole("row", { name: /old\.csv events undone/ }).waitFor();
  });
  const viewer = await open(browser, 1280, "dark");
  await step("roles refused", async () => {
    const made = await ask(page, "POST", "/v1/accounts", { name: "vic@example.com", role: "viewer", password });
    assert.equal(made.status, 201);
    await signIn(viewer, "vic@example.com");
    await viewer.goto(`${url}/suppressions`);
    await viewer.getByText("Nobody is suppressed").waitFor();
    assert.equal(await viewer.getByRole("button", { name: "Suppress an address" }).count(), 0);
    assert.equal(await viewer.getByRole("link", { name: "Settings" }).count(), 0);
    await viewer.goto(`${url}/imports/${imported}`);
    await viewer.getByText("undone", { exact: true }).waitFor();
    await viewer.getByRole("link", { name: "All imports" }).click();
    await viewer.getByRole("cell", { name: "old.csv" }).waitFor();
    assert.equal(await viewer.getByLabel(/^Choose /).count() + await viewer.getByRole("button", { name: "Undo" }).count(), 0);
    for (const [method, path, body] of [
      ["POST", "/v1/suppressions", { suppressions: [{ entry: "a@example.com" }] }], ["POST", "/v1/sending/pause", { by: "all" }], ["GET", "/v1/accounts"], ["POST", "/v1/keys", { name: "x", permissions: "all" }], ["GET", "/v1/audit"],
      ["POST", "/v1/imports", { name: "x", size: 1, kind: "users" }], ["POST", `/v1/imports/${imported}/pieces?offset=0`, {}], ["POST", `/v1/imports/${imported}/undo`],
      ["POST", "/users/track", { attributes: [] }], ["POST", "/v1/messages", {}],
    ]) assert.ok([401, 403].includes((await ask(viewer, method, path, body)).status), `a viewer may ${method} ${path}`);
  });
  await step("groups are for editors too", async () => {
    assert.equal((await ask(page, "POST", "/v1/accounts", { name: "edith@example.com", role: "editor", password })).status, 201);
    const editor = await open(browser, 1280, "light");
    await signIn(editor, "edith@example.com");
    await editor.getByRole("link", { name: "Settings" }).click();
    await editor.getByText("No group has a name yet").waitFor();
    assert.deepEqual(await editor.getByRole("navigation", { name: "Settings" }).getByRole("link").allTextContents(), ["Groups"]);
    await accessible(editor, "groups of an editor");
    await editor.goto(`${url}/settings/accounts`);
    await editor.getByText("It lacks the permission accounts:manage").waitFor();
    await editor.context().close();
    const { body } = await ask(page, "GET", "/v1/accounts");
    await ask(page, "DELETE", `/v1/accounts/${body.accounts.find((a) => a.name === "edith@example.com").id}`);
  });
  await step("the own password", async () => {
    const next = `${password} two`;
    const other = await open(browser, 390, "light"); // another browser of the same account
    await signIn(other, "vic@example.com");
    await viewer.goto(url);
    await viewer.getByRole("link", { name: "vic@example.com" }).click();
    await heading(viewer, "Your account");
    await viewer.getByText("in the zone of this browser").waitFor();
    await viewer.getByRole("button", { name: "Change your password" }).click();
    const dialog = viewer.getByRole("dialog");
    await accessible(viewer, "a new password");
    const change = async (old, again) => {
      await dialog.getByLabel("Old password").fill(old);
      await dialog.getByLabel("New password", { exact: true }).fill(next);
      await dialog.getByLabel("New password again").fill(again);
      await viewer.keyboard.press("Enter");
    };
    await change(password, "another one, which differs");
    await dialog.getByText("The two new passwords differ.").waitFor();
    await change("wrong horse battery", next);
    await dialog.getByText("The old password is wrong").waitFor();
    await change(password, next);
    await viewer.getByRole("status").getByText("The password is changed").waitFor();
    await heading(other, "Sign in");
    await viewer.reload();
    await heading(viewer, "Your account"); // it has a new session
    await other.context().close();
  });
  await step("session revoked", async () => {
    await viewer.goto(url);
    await heading(viewer, "Overview");
    await page.goto(`${url}/settings/accounts`);
    await page.getByRole("row", { name: "vic@example.com" }).getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Sign out" }).click();
    await viewer.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  });
  await step("eight tabs have one stream", async () => {
    const at = await open(browser, 1280, "light");
    const context = at.context();
    await context.addCookies((await page.context().storageState()).cookies);
    const streams = [], looks = [];
    context.on("request", (r) => {
      if (r.url().endsWith("/v1/overview/stream")) streams.push(r.frame().page());
      if (r.url().endsWith("/v1/overview")) looks.push(r);
    });
    const tabs = [at, ...await Promise.all(Array.from({ length: 7 }, () => context.newPage()))];
    await Promise.all(tabs.map(async (tab) => { await tab.goto(url); await tab.getByText("Oldest not stored").waitFor(); }));
    assert.equal(streams.length, 1, "several tabs have streams");
    assert.equal(looks.length, 0, "a tab polls");
    const other = tabs.find((tab) => tab !== streams[0]);
    await other.goto(`${url}/people?q=eve`); // the other connections are free
    await other.getByRole("table").waitFor();
    await streams[0].close();
    await until(() => streams.length === 2, "no other tab goes on with the stream");
    await context.close();
  });
  await step("the server is lost and regained", async () => {
    const sockets = new Set();
    const away = net.createServer((from) => {
      const to = net.connect(new URL(url).port, "127.0.0.1");
      for (const [a, b] of [[from, to], [to, from]]) {
        sockets.add(a);
        a.on("close", () => { sockets.delete(a); b.destroy(); });
        a.on("error", () => undefined);
        a.pipe(b);
      }
    });
    const listen = (port) => new Promise((resolve, reject) => { away.once("error", reject); away.listen(port, "127.0.0.1", resolve); });
    await listen(0);
    const { port } = away.address();
    const context = await browser.newContext({ storageState: await page.context().storageState() });
    context.setDefaultTimeout(patience);
    const at = await context.newPage();
    await at.goto(`http://127.0.0.1:${port}/`);
    await at.getByText("Oldest not stored").waitFor();
    away.close();
    for (const socket of sockets) socket.destroy();
    await at.getByRole("alert").getByText("The server does not answer").waitFor();
    await listen(port);
    await at.getByRole("alert").waitFor({ state: "detached" });
    await context.close();
    away.close();
    for (const socket of sockets) socket.destroy();
  });
  await step("routes and domains", async () => {
    await page.goto(`${url}/settings/routes`);
    await page.getByRole("row", { name: /^sink works .* default$/ }).waitFor();
    await page.getByRole("row", { name: /^sending sink default$/ }).waitFor();
  });
  await step("reactions", async () => {
    await page.getByRole("link", { name: "Reactions" }).click();
    await heading(page, "Reactions");
    const rows = page.getByRole("region", { name: "Reactions" }).getByRole("row");
    await rows.filter({ hasText: `[U+202E]${evil}` }).getByRole("cell", { name: "1", exact: true }).first().waitFor();
    await page.getByRole("definition").filter({ hasText: "1 delivered" }).waitFor();
    await rows.getByRole("link").first().click(); // into its links
    await page.getByText("Only of the campaign").waitFor();
    assert.equal(new URL(page.url()).searchParams.get("campaign"), `\u202e${evil}`);
    await page.getByLabel("Group by").selectOption("day");
    await rows.filter({ hasText: new Date().getUTCFullYear() }).first().waitFor();
    await page.getByLabel("Time").selectOption("7");
    await page.waitForURL(/days=7/);
    await page.getByRole("link", { name: "Show all" }).click();
    await page.getByText("Only of the campaign").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => window.hacked), undefined, "a script in a campaign was run");
  });
  await step("days where the browser is in another zone", async () => {
    const context = await browser.newContext({ storageState: await page.context().storageState(), timezoneId: "America/New_York", reducedMotion: "reduce" });
    context.setDefaultTimeout(patience);
    const at = await context.newPage();
    const day = (n) => new Date(Date.UTC(2026, 0, n)).toISOString();
    const series = Array.from({ length: 12 }, (_, i) => ({ time: day(31), name: `name ${i}`, count: 100 - i }));
    await at.route(/\/v1\/series\b/, (r) => r.fulfill({ json: { from: day(30), to: day(32), step: "day", series } }));
    await at.goto(`${url}/series`);
    await at.getByLabel("Kind").selectOption("custom");
    await at.getByRole("combobox", { name: "Time" }).selectOption("30");
    await at.waitForURL(/\/series\?kind=custom&days=30$/);
    await at.reload();
    assert.equal(await at.getByLabel("Kind").inputValue(), "custom", "what is looked at is not in the URL");
    await at.getByText("Drawn are the 8 of 12 names").waitFor();
    const plot = at.locator(".u-over");
    await plot.hover({ position: { x: (await plot.boundingBox()).width - 3, y: 50 } });
    await at.locator(".u-legend").getByText("31 Jan 2026 (UTC)").waitFor();
    await at.unroute(/\/v1\/series\b/);
    await at.goto(`${url}/series`);
    const [csv] = await Promise.all([at.waitForEvent("download"), at.getByRole("link", { name: "Download as CSV" }).click()]);
    assert.match(fs.readFileSync(await csv.path(), "utf8"), /^time,name,count\n.*\bsent,1\n/s);
    let from;
    at.on("request", (r) => { if (r.url().includes("/v1/reactions")) from = new URL(r.url()).searchParams.get("from"); });
    await at.goto(`${url}/reactions?by=day&days=7`);
    await at.getByRole("columnheader", { name: "Day (UTC)" }).waitFor();
    assert.match(from, /T00:00:00/, "figures and days are not of one time");
    await context.close();
  });
  await step("audit log", async () => {
    const bob = await ask(page, "POST", "/v1/accounts", { name: "bob@example.com", role: "viewer", password });
    await ask(page, "PUT", `/v1/accounts/${bob.body.id}`, { role: "editor", password: `${password} two` });
    await ask(page, "PUT", "/v1/groups/evil", { name: `\u202e${evil}`, description: "d".repeat(1000), public: true });
    await ask(page, "DELETE", "/v1/groups/evil");
    await ask(page, "DELETE", `/v1/accounts/${bob.body.id}`);
    const key = await ask(page, "POST", "/v1/keys", { name: "shop", permissions: "events:write" });
    await ask(page, "POST", "/v1/suppressions/remove", { entries: Array.from({ length: 27 }, (_, i) => `p${i}@example.com`), reason: "manual" });
    await page.goto(`${url}/settings/audit`);
    const row = (what) => page.getByRole("row").filter({ hasText: what }).first();
    await row(`PUT /v1/accounts/${bob.body.id}`).getByText("viewer").waitFor();
    assert.match(await row(`PUT /v1/accounts/${bob.body.id}`).textContent(), /ann@example\.com.*role\s*before\s*viewer\s*after\s*editor/);
    assert.match(await row("DELETE /v1/groups/evil").textContent(), /public\s*before\s*true\s*removed/);
    assert.match(await row("POST /v1/keys").textContent(), /name\s*after\s*shop/);
    assert.match(await row("POST /v1/suppressions/remove").textContent(), /Of 7 more in this request nothing is compared/);
    assert.equal(await page.getByText(key.body.key).count(), 0, "a key is in the audit log");
    assert.ok((await row("PUT /v1/groups/evil").textContent()).includes(`[U+202E]${evil}`));
    for (const what of ["POST /v1/sending/pause", "POST /v1/suppressions", "POST /v1/accounts"]) await page.getByText(what, { exact: true }).first().waitFor();
    assert.equal(await page.getByText(password).count(), 0, "a password is in the audit log");
    await page.getByText("POST /v1/imports", { exact: true }).first().waitFor();
    assert.match(await row(`POST /v1/imports/${imported}/undo`).textContent(), /state\s*before\s*done\s*after\s*undone/);
    assert.equal(await page.getByText("/pieces").count(), 0, "each piece of a file is in the audit log");
    const phone = await as(browser, page, 390);
    await phone.goto(`${url}/settings/audit`);
    await phone.getByRole("button", { name: `PUT /v1/accounts/${bob.body.id}` }).click();
    const dialog = phone.getByRole("dialog");
    assert.match(await dialog.textContent(), /Whoann@example\.comAnswerdone.*role\s*before\s*viewer\s*after\s*editor/);
    await accessible(phone, "an entry of the audit log on a phone");
    await phone.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await phone.getByRole("button", { name: "PUT /v1/groups/evil" }).click();
    assert.ok((await dialog.textContent()).includes("d".repeat(250)), "an entry is not shown whole");
    const box = await dialog.boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 390 && box.y + box.height <= 844, "an entry is beyond the window");
    await phone.goto(`${url}/settings/keys`);
    await phone.getByRole("button", { name: "events:write" }).click();
    await dialog.getByText("What shop may do").waitFor();
    assert.deepEqual(await dialog.getByRole("listitem").allTextContents(), ["events:write"]);
    await phone.context().close();
  });
  await step("bad names", async () => {
    const list = /\/v1\/users\?/;
    await page.route(list, async (r) => { // no such name is let in; a page does not rely on it
      const answer = await r.fetch();
      const body = await answer.json();
      for (const u of body.users) Object.assign(u, { first_name: "W".repeat(10_000), email: `${"m".repeat(10_000)}@example.com` });
      await r.fulfill({ response: answer, json: body });
    });
    await page.goto(`${url}/people?q=long`);
    await page.getByRole("cell").filter({ hasText: "WWWW" }).waitFor();
    await accessible(page, "a long name");
    const row = await page.getByRole("row").filter({ hasText: "WWWW" }).boundingBox();
    assert.ok(row.height < 400, `a row of a long name is ${row.height} pixels high`);
    await page.unroute(list);
    await page.getByRole("table").getByRole("link").first().click();
    await page.getByRole("heading", { name: "What happened" }).waitFor();
    await accessible(page, "a person of a long name");
    await page.getByRole("button", { name: "Show all" }).press("Enter");
    assert.equal((await page.getByRole("dialog").locator("pre").textContent()).length, 10_000, "a long attribute is not shown whole");
    await accessible(page, "a long attribute");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const texts = await page.evaluate(() => [...document.querySelectorAll("bdi")].map((e) => e.textContent));
    assert.ok(texts.some((t) => t.includes("WWWW")) && texts.every((t) => t.length <= 201 && !/[\u202a-\u202e\u2066-\u2069]/.test(t)), "a text is shown whole, or turns what is beside it");
    assert.equal(await page.evaluate(() => window.hacked), undefined, "a script in a name was run");
    const turned = `\u202e${"\u05d0\u05d1 ".repeat(5000)}`;
    await page.route(/\/v1\/(sends|mailboxes)\b/, async (r) => {
      const answer = await r.fetch();
      const body = await answer.json();
      for (const m of body.sends ?? body.mails) Object.assign(m, { to: `${"m".repeat(10_000)}@example.com`, subject: turned, from: turned, tags: turned, reply: turned, reason: turned });
      await r.fulfill({ response: answer, json: body });
    });
    for (const path of ["/messages", "/mailbox"]) {
      await page.goto(url + path);
      const line = page.getByRole("row").filter({ hasText: "mmmm" }).first();
      assert.ok((await line.textContent()).includes("[U+202E]"), `${path} does not write out what turns the text`);
      assert.ok((await line.boundingBox()).height < 400, `${path} has a row that is very high`);
      await accessible(page, `${path} of long names`);
    }
    await page.unroute(/\/v1\/(sends|mailboxes)\b/);
  });
  await step("people who stay in a journey", async () => {
    const held = { id: "held", name: "Held", status: "live", version: 1, revision: 1, created: "2026-03-02T09:00:00.000Z", updated: "2026-03-02T09:00:00.000Z", document: { id: "held" }, versions: [], counts: { steps: [], conversions: {}, limited: 0, control: 0, control_conversions: {}, uplift: [], path_uplift: [], global_uplift: [] } };
    held.stays = { more: true, steps: [
      { step: "hello", people: 12, since: "2026-03-02T10:00:00.000Z", reason: "no_mail", why: "its mail cannot be made: no sender" },
      { step: "later", people: 0, reason: "no_mail", why: "its mail cannot be made: no template" },
    ] };
    await page.route(/\/v1\/journeys\/held$/, (r) => r.fulfill({ json: held }));
    await page.goto(`${url}/journeys/held`);
    await page.getByText(/At least 12 people stay at hello, the first since .+: its mail cannot be made: no sender/).first().waitFor();
    await page.getByText(/Who comes to later stays there: its mail cannot be made: no template/).first().waitFor();
    await accessible(page, "people who stay in a journey");
    const at = (step, entered) => ({ step, entered, waiting: 0, passed: entered, exited: 0, left_out: 0, sent: 0, opened: 0, clicked: 0, opened_raw: 0, clicked_raw: 0 });
    Object.assign(held, { id: "goals", document: { id: "goals", conversions: [{ name: "order" }, { name: "any_visit" }] }, stays: undefined, hold: undefined });
    const compared = { conversion: "order", entered: 38, converted: 10, control_entered: 2, control_converted: 0, difference: 0.263, low: -0.41, high: 0.42, shown: false };
    Object.assign(held.counts, { steps: [at("new", 0), at("hello", 40)], conversions: { any_visit: 30, order: 10 }, control: 2, global_uplift: [{ percent: 5, ...compared }] });
    held.counts.steps[1].paths = [{ branch: "read", ...at("", 31), waiting: 11, passed: 20 }, { branch: "otherwise", ...at("", 9) }];
    await page.route(/\/v1\/journeys\/goals$/, (r) => r.fulfill({ json: held }));
    await page.goto(`${url}/journeys/goals`);
    const figure = (name) => page.locator(".figure").filter({ has: page.getByText(name, { exact: true }) });
    await figure("Entered").getByText("2 of them in the control group").waitFor();
    assert.match(await figure("Entered").textContent(), /^Entered422 of them/); // though nobody came through the first step of the draft
    assert.match(await figure("Converted").textContent(), /^Converted10any visit 30, 75\.0%; order 10, 25\.0% of the 40 beside the control group$/);
    assert.match(await page.getByRole("row").filter({ hasText: "hello › read" }).textContent(), /hello › read77\.5%31112000––/);
    assert.match(await page.getByRole("row").filter({ hasText: "Everybody with the 5% who get no marketing mail" }).textContent(), /order26\.3% of 380\.0% of 2\+26\.30 −41\.00 to \+42\.00, no difference shown$/);
    await accessible(page, "branches and uplift of a journey");
    Object.assign(held, { status: "paused" });
    await page.reload();
    const asked = [];
    await page.route(/\/v1\/journeys\/goals\/resume/, (r) => { asked.push(new URL(r.request().url()).searchParams.get("overdue")); return r.fulfill({ json: held }); });
    for (const [open, act] of [["Resume", "Resume"], ["Resume without what was due", "Resume without it"]]) {
      await page.getByRole("button", { name: open, exact: true }).click();
      await page.getByRole("alertdialog").getByRole("button", { name: act, exact: true }).click();
      await page.getByRole("alertdialog").waitFor({ state: "detached" });
    }
    assert.deepEqual(asked, ["send", "skip"]); // without a choice it is refused while somebody is overdue
    await page.unroute(/\/v1\/journeys\/goals\/resume/);
    await page.unroute(/\/v1\/journeys\/goals$/);
    await page.unroute(/\/v1\/journeys\/held$/);
  });
  await step("a slow or broken API", async () => {
    const at = await as(browser, page);
    const wanted = /\/v1\/(reactions|series|audit|users|sends)\b/;
    const lost = [];
    for (const [path, there] of [["/reactions", "Automatic replies"], ["/settings/audit", "Before and after"], ["/people?q=eve", "eve@example.com"], ["/messages", "eve@example.com"]]) {
      for (const [how, answer] of [
        ["an error", { status: 500, contentType: "application/json", body: '{"error":{"code":"internal","message":"<b>it</b> broke"}}' }],
        ["no JSON", { status: 200, contentType: "text/html", body: "<h1>proxy</h1>" }],
        ["half of it", { status: 200, contentType: "application/json", body: '{"reactions":[{' }],
        ["nothing", undefined],
      ].slice(0, path.startsWith("/reactions") || path.endsWith("/audit") ? 4 : 1)) {
        await at.route(wanted, (r) => (answer ? r.fulfill(answer) : r.abort("connectionreset")));
        await at.goto(url + path);
        await at.getByRole("button", { name: "Try again" }).first().waitFor();
        if (how === "an error") await at.getByText("<b>it</b> broke").first().waitFor();
        lost.push(...(await judged(at, `${path} with ${how}`)));
        await at.unroute(wanted);
        await at.evaluate(() => [...document.querySelectorAll("button")].filter((b) => b.textContent === "Try again").forEach((b) => b.click()));
        await at.getByText(there).first().waitFor();
      }
      let release;
      const held = new Promise((done) => { release = done; });
      await at.route(wanted, async (r) => { await held; await r.continue(); });
      await at.goto(url + path);
      await at.getByText("Loading", { exact: true }).first().waitFor({ state: "attached" });
      await at.getByRole("link", { name: "Overview" }).waitFor(); // the rest can be used
      release();
      await at.getByText(there).first().waitFor();
      await at.unroute(wanted);
    }
    await at.context().close();
    forgive(/status of 500|ERR_CONNECTION_RESET/);
    assert.equal(lost.join("\n"), "");
  });
  await step("a first visit is small", async () => {
    for (const path of ["/sign-in", "/", "/series", "/people?q=eve", "/messages", "/journeys"]) {
      const at = path === "/sign-in" ? await open(browser, 1280, "light") : await as(browser, page);
      await at.goto(url + path);
      await at.getByRole("heading", { level: 1 }).waitFor();
      await at.getByText("Loading", { exact: true }).first().waitFor({ state: "detached" });
      const loaded = await at.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].map((e) => [e.name, e.transferSize]));
      const bytes = loaded.reduce((sum, [, size]) => sum + size, 0);
      assert.ok(bytes > 100_000 && bytes < mostBytes, `${path} loads ${bytes} bytes: ${loaded.join(" ")}`);
      await at.context().close();
    }
  });
  await step("a clock that is wrong", async () => {
    for (const hours of [-7, 7]) {
      const at = await as(browser, page);
      await at.clock.install({ time: Date.now() + hours * 3_600_000 });
      await at.goto(`${url}/messages`);
      const mail = at.getByRole("row").filter({ hasText: "eve@example.com" });
      await mail.getByText(/^(now|[\d.]+ (s|min) ago)$/).waitFor();
      // The page stays open, and says it; an answer of the server sets its clock right again.
      const later = mail.getByText(/^(6\d min|\d+ [hd]) ago$/);
      do await at.clock.fastForward(3_600_000); while (!(await later.isVisible()));
      await at.getByRole("link", { name: "Reactions" }).click();
      await at.getByRole("region", { name: "Reactions" }).getByRole("row").nth(1).waitFor();
      await at.context().close();
    }
  });
  await step("an answer that is late", async () => {
    const at = await as(browser, page);
    await at.clock.install();
    await at.route(/\/v1\/(users|sends|suppressions|session)\b/, () => undefined); // is never answered
    await at.goto(url);
    await at.getByText("Loading", { exact: true }).first().waitFor({ state: "attached" });
    await at.clock.fastForward(31_000);
    await at.getByText("has not answered within 30 seconds. Try again").waitFor();
    await at.unroute(/\/v1\/(users|sends|suppressions|session)\b/);
    await at.getByRole("button", { name: "Try again" }).click();
    await heading(at, "Overview");
    await at.getByRole("link", { name: "Suppressions" }).click();
    await at.route(/\/v1\/suppressions\b/, () => undefined);
    await at.getByRole("button", { name: "Suppress an address" }).click();
    await at.getByLabel("Address, or a domain").fill("late@example.com");
    await at.getByRole("button", { name: "Suppress", exact: true }).click();
    await at.clock.fastForward(31_000);
    await at.getByRole("dialog").getByText("may have been done all the same").waitFor();
    assert.equal(await at.getByLabel("Address, or a domain").inputValue(), "late@example.com", "what was written is gone");
    await at.context().close();
  });
  await step("an answer that is cut", async () => {
    const paths = new Map([["/people?q=eve", /\/v1\/users/], ["/messages", /\/v1\/sends/], ["/series", /\/v1\/series/], ["/mailbox", /\/v1\/mailboxes/], ["/journeys", /\/v1\/journeys/], ["/settings/keys", /\/v1\/keys/]]);
    await Promise.all([...paths].map(async ([path, asked]) => { // each asks three times, with pauses
      const { origin, close } = await cutting(asked);
      const context = await browser.newContext({ storageState: await page.context().storageState() });
      context.setDefaultTimeout(patience);
      const at = await context.newPage();
      await at.goto(origin + path);
      await at.getByText("The server does not answer. Look whether").first().waitFor();
      await at.getByRole("button", { name: "Try again" }).first().waitFor();
      await context.close();
      close();
    }));
  });
  await step("a browser that takes itself for offline", async () => {
    const at = await as(browser, page);
    await at.goto(url);
    await heading(at, "Overview");
    await at.context().setOffline(true);
    await at.getByRole("link", { name: "Messages" }).click();
    await at.getByText("The server does not answer. Look whether").first().waitFor();
    await at.getByRole("link", { name: "Series" }).click(); // a part that is loaded when it is asked for
    await at.getByText("This page cannot be shown").waitFor();
    await at.getByRole("link", { name: "Journeys" }).click();
    await heading(at, "Journeys");
    await at.getByRole("button", { name: "Sign out" }).click();
    await at.getByRole("alert").getByText("may have been done all the same").waitFor();
    await at.context().setOffline(false);
    await at.getByRole("link", { name: "Messages" }).click();
    await at.getByRole("link", { name: "eve@example.com" }).first().waitFor();
    await at.context().close();
    forgive(/ERR_INTERNET_DISCONNECTED|Failed to fetch dynamically imported module/);
  });
  await step("a long list", async () => {
    const sends = Array.from({ length: 1000 }, (_, i) => ({
      send: `0190f1d2-0000-7000-8000-${String(i).padStart(12, "0")}/0`, message: "m", to: `person-${i}@${i < 500 ? "" : "a-much-longer-name."}example.com`, from: "shop@example.com", state: i === 1 ? "suppressed" : "sent",
      class: "marketing", priority: "normal", tags: "spring,".repeat(i % 50), attempts: 1, accepted: "2026-01-31T10:00:00Z", updated: "2026-01-31T10:00:00Z", life: [],
    }));
    for (const width of [1280, 390]) {
      const at = await as(browser, page, width);
      await at.route(/\/v1\/sends\?/, (r) => r.fulfill({ json: { sends } }));
      await at.goto(`${url}/messages`);
      const list = at.getByRole("region", { name: "Mails" });
      await list.getByText("person-0@").waitFor();
      await list.locator("table.rows").waitFor();
      const edges = () => list.getByRole("row").nth(1).getByRole("cell").evaluateAll((cells) => cells.filter((c) => c.offsetWidth > 0).map((c) => Math.round(c.getBoundingClientRect().left)));
      const before = await edges();
      assert.equal(before.length, width > 760 ? 7 : 4, "columns that are seen"); // on a phone the last is the second line
      if (width < 760) await list.getByRole("row").nth(1).getByText("Class marketing").waitFor();
      assert.deepEqual(await list.locator(".badge").evaluateAll((badges) => badges.filter((b) => b.getBoundingClientRect().right > b.closest("td").getBoundingClientRect().right).map((b) => b.textContent)), [], "states are cut");
      await list.evaluate((e) => { e.scrollTop = e.scrollHeight; });
      await list.getByText("person-999@").waitFor();
      assert.deepEqual(await edges(), before, "columns move as other rows come in");
      assert.ok(await list.getByRole("row").count() < 80, "rows are drawn that nobody sees");
      assert.equal(await list.getByRole("row").last().getAttribute("aria-rowindex"), "1001");
      const [row, end] = [await list.getByRole("row").last().boundingBox(), await list.boundingBox()];
      assert.ok(Math.abs(row.y + row.height - end.y - end.height) < 2, "the last row does not end the list");
      await list.getByRole("columnheader", { name: "To" }).click();
      await accessible(at, `a long list ${width}`);
      await at.context().close();
    }
  });
  await step("a list that becomes long", async () => {
    const page50 = (from) => Array.from({ length: 50 }, (_, i) => ({
      send: `m.${from + i}`, message: "m", to: `person-${from + i}@example.com`, from: "shop@example.com", state: "sent", class: "marketing", priority: "normal", tags: "", attempts: 1, accepted: "2026-01-31T10:00:00Z", updated: "2026-01-31T10:00:00Z", life: [],
    }));
    for (const width of [1280, 390]) {
      const at = await as(browser, page, width);
      await at.route(/\/v1\/sends\?/, (r) => {
        const from = Number(new URL(r.request().url()).searchParams.get("before") || 0);
        return r.fulfill({ json: { sends: page50(from), next: String(from + 50) } });
      });
      await at.goto(`${url}/messages`);
      for (const last of [49, 99, 149, 199]) {
        await at.getByText(`person-${last}@`).waitFor();
        await at.getByRole("button", { name: "Look further back" }).click();
      }
      await at.locator("table.rows").waitFor();
      for (const there of [199, 200]) await at.getByText(`person-${there}@`).waitFor(); // where one was, and what has come
      assert.equal(await at.getByText("person-0@").count(), 0, "the list begins anew");
      await at.context().close();
    }
  });
  await step("a path where nothing is", async () => {
    const answer = await page.goto(`${url}/nothing/here`);
    assert.equal(answer.status(), 404);
    await heading(page, "No such page");
    await accessible(page, "a path where nothing is");
    await page.getByRole("main").getByRole("link", { name: "Overview" }).click();
    await heading(page, "Overview");
    forgive(/status of 404/);
  });
  await step("a first mail", async () => {
    await page.goto(url);
    await page.getByText("No mail leaves yet").waitFor();
    assert.equal(await page.getByRole("button", { name: "Send a first mail" }).count(), 0, "a first mail is offered after others");
    await page.route(/\/v1\/mailboxes\?|\/v1\/mailboxes$/, (r) => r.fulfill({ json: { mails: [] } }));
    await page.goto(`${url}/mailbox`);
    await page.getByRole("button", { name: "Send a first mail" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("To").fill("first@example.com");
    await accessible(page, "a first mail");
    await dialog.getByRole("button", { name: "Send it" }).click();
    await dialog.getByRole("link", { name: "Read it there" }).waitFor();
    await page.unroute(/\/v1\/mailboxes\?|\/v1\/mailboxes$/);
    await dialog.getByRole("button", { name: "Done" }).click();
    const mail = page.getByRole("link", { name: "A first mail" });
    while (!(await mail.isVisible())) {
      await page.getByRole("button", { name: "Refresh" }).click();
      await page.waitForTimeout(200);
    }
    await mail.click();
    await page.frameLocator("iframe").getByText("On its way").waitFor();
  });
  await step("a new key says how it is used", async () => {
    await page.goto(`${url}/settings/keys`);
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByText(/^curl .*\/v1\/messages -H "Authorization: Bearer /).waitFor();
    await accessible(page, "a new key");
    await page.getByRole("button", { name: "Done" }).click();
  });
  await step("every page at every width and scheme", async () => {
    const storage = await page.context().storageState();
    const found = [];
    const paths = ["/", "/people", "/people?q=eve@example.com", "/messages", "/doubts", "/reactions", "/reactions?by=step&days=7", "/people?q=long", "/mailbox", "/suppressions", "/dead-letters", "/series", "/imports", `/imports/${imported}`, "/journeys", "/settings/accounts", "/settings/keys", "/settings/groups", "/settings/routes", "/settings/audit", "/account", "/design"];
    const { body } = await ask(page, "GET", "/v1/users?q=eve@");
    paths.push(`/people/${body.users[0].braze_id}`);
    // Each width and each scheme once; for pictures all four.
    const looks = [[1280, "light"], [390, "dark"], [390, "light"], [1280, "dark"]];
    for (const [width, scheme] of shots ? looks : looks.slice(0, 2)) {
      const at = await open(browser, width, scheme);
      await at.context().addCookies(storage.cookies);
      for (const path of paths) {
        await at.goto(url + path);
        await at.getByRole("heading", { level: 1 }).waitFor();
        if (path !== "/design") await at.getByText("Loading", { exact: true }).first().waitFor({ state: "detached" });
        found.push(...(await judged(at, `${path} ${width} ${scheme}`)));
        if (shots) await at.screenshot({ path: `${shots}/${path.replace(/\W+/g, "_")}-${width}-${scheme}.png` });
      }
      await at.context().close();
    }
    assert.equal(found.join("\n"), "");
  });
  await step("keyboard", async () => {
    await page.goto(url);
    await heading(page, "Overview");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the page");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.getByRole("link", { name: "Messages" }).press("Enter");
    const list = page.getByRole("region", { name: "Mails" });
    await list.getByRole("link").first().press("Enter");
    await page.getByText("First opened").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), "main", "the keyboard is nowhere when the link is gone");
    const wrong = [];
    const { body } = await ask(page, "GET", "/v1/users?q=eve@");
    for (const path of ["/", "/people?q=eve", `/people/${body.users[0].braze_id}`, "/messages", "/reactions", "/mailbox", "/suppressions", "/series", "/journeys", "/settings/accounts", "/settings/keys", "/settings/groups", "/settings/routes", "/settings/audit"]) {
      wrong.push(...(await unreached(browser, page, path, 1280)));
      if (["/", "/messages", "/settings/accounts"].includes(path)) wrong.push(...(await unreached(browser, page, path, 390)));
    }
    assert.equal(wrong.join("\n"), "");
  });
  await step("a dialog by the keyboard", async () => {
    await page.goto(`${url}/settings/keys`);
    await page.getByRole("button", { name: "Make a key" }).press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    await page.waitForFunction(() => document.querySelector("[role=dialog]")?.contains(document.activeElement)); // a moment later
    for (let i = 0; i < 8; i++) { // all it has, and around
      assert.ok(await dialog.evaluate((d) => d.contains(document.activeElement)), "the keyboard has left the dialog");
      await page.keyboard.press("Tab");
    }
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement.textContent === "Make a key");
  });
  await browser.close();
})().catch((e) => {
  console.log(`FAIL ${e.stack}`);
  process.exit(1);
});
