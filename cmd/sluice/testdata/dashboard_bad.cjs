// Shows the dashboard answers that no good server gives, for TestDashboardOfBadAnswers: late,
// broken, hostile ones, and of a session that has ended. It is started as dashboard.cjs is.
const assert = require("node:assert/strict");
const { url, link, password, evil, shots, faults, launch, open, step, heading, signIn, ask, judged, as, forgive, accessible } = require("./dashboard_kit.cjs");

const turning = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const nasty = `\u202e\u2066${evil}\u05d0\u05d1 ${"W".repeat(10_000)}`;
const time = "2026-01-31T10:00:00Z";
const id = "0190f1d200007000800000000000000a";

// What strangers, or those who call the API, choose: by the names of members.
const theirs = new Set(["name", "reason", "to", "from", "subject", "tags", "reply", "remote", "why", "note", "description", "value", "external_id", "first_name", "last_name", "email", "phone", "city", "step_name", "app_id", "source", "entry",
  "detail", "path", "route", "domain", "found", "remedy", "waits_for", "campaign", "journey_name", "variant", "user_id", "by", "user", "hold", "set", "redis", "database", "reasons", "warnings", "custom_attributes", "properties", "step"]);

/** spoiled is an answer in which every text that others choose is nasty. */
function spoiled(value, mine = false) {
  if (Array.isArray(value)) return value.map((v) => spoiled(v, mine));
  if (value === null || typeof value !== "object") return mine && typeof value === "string" ? nasty : value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [mine ? `${nasty.slice(0, 300)}${k}` : k, spoiled(v, mine || theirs.has(k))]));
}

const send = {
  send: `${id}.0`, message: id, to: "a", from: "b", user_id: "u", state: "waiting", class: "marketing", priority: "normal", tags: "t", journey: "j", step: "s", variant: "v", attempts: 1, accepted: time, updated: time,
  reply: "r", reason: "r", waits_for: ["w"], life: [{ at: time, event: "deferred", route: "r", remote: "m", code: 421, reply: "r", reason: "x", attempt: 1 }],
};
const step1 = { step: "s", entered: 3, waiting: 1, passed: 1, exited: 1, left_out: 0, sent: 2, opened: 1, clicked: 1, opened_raw: 1, clicked_raw: 1 };
const journey = { id: "j", name: "n", status: "live", hold: "h", version: 1, revision: 1, created: time, updated: time };
const group = { id: nasty.slice(0, 255), name: "n", description: "d", public: true, order: 1, created: time, updated: time };
const account = { id: "a", name: "n", role: "admin", created: time, updated: time };
const imported = { id, name: "n", state: "open", by: "b", options: { kind: "events", columns: { [nasty.slice(0, 255)]: nasty.slice(0, 255) } }, size: 10, next_offset: 5, lines: 1, taken: 0, refused_count: 1, removed: 0, created: time, updated: time };

// What pages are answered, by their paths.
const answers = {
  "/v1/users?q": { users: [{ braze_id: "0123456789abcdef01234567", external_id: "e", first_name: "f", last_name: "l", email: "m", email_subscribe: "subscribed", found_by: "email" }], more: true },
  "/users/export/ids": { users: [{ braze_id: "x", external_id: "e", first_name: "f", email: "m", phone: "p", created_at: time, custom_attributes: { a: "b" }, purchases: [{ name: "n", count: 1, first: time, last: time }] }] },
  "/journeys?by": { journeys: [{ journey: "j", name: "n", step: "s", step_name: "t", state: "inside", version: 1, occurrence: 0, entered: time }] },
  "/timeline": { entries: [
    { kind: "event", time, what: "w", event: { kind: "custom", name: "n", app_id: "a", properties: { p: "q" } } }, { kind: "mail", time, what: "w", mail: send },
    { kind: "consent", time, what: "w", suppression: { entry: "e", reason: "manual", scope: "all", app_id: "a", source: "s", time, removed: false } }, { kind: "consent", time, what: "w", group: { id: nasty, state: "subscribed" } },
  ], looked_to: time },
  "/v1/sends": { sends: [send] },
  "/v1/ledger/doubts": { doubts: [{ ...send, app_id: "a", undecided: true }] },
  "/v1/reactions": { reactions: [{ campaign: "c", journey: "j", sent: 9, refused: 0, delivered: 9, confirmed: 0, bounced: { hard: 0, soft: 0, block: 0, other: 0 }, complained: 0, unsubscribed: 0, raw: { opened: 1, clicked: 1 }, human: { opened: 1, clicked: 1 } }] },
  "/v1/mailboxes?": { mails: [{ number: 1, time, send: `${id}.0`, from: "f", to: "t", subject: "s", tags: ["t"], bytes: 9 }] },
  "/v1/mailboxes/1": { number: 1, time, send: `${id}.0`, from: "f", to: "t", subject: "s", tags: ["t"], bytes: 9, raw: Buffer.from(nasty.repeat(30)).toString("base64") },
  "/v1/suppressions": { suppressions: [{ entry: "e", reason: "manual", scope: "all", app_id: "a", source: "s", time, removed: false }] },
  "/v1/suppressions/check": { results: [{ address: "a", suppressed: true, reason: "manual", scope: "all", match: "domain" }] },
  "/v1/dead?": { dead_letters: [{ id: 1, time, source: "s", form: "event", partition: 0, reason: "r" }] },
  "/v1/dead/1": { id: 1, time, source: "s", form: "event", partition: 0, reason: "r", payload: Buffer.from(nasty).toString("base64"), payload_bytes: 9_000_000 },
  "/v1/series": { from: "2026-01-31T00:00:00Z", to: "2026-01-31T03:00:00Z", series: [{ time: "2026-01-31T01:00:00Z", name: "n", count: 7 }] },
  "/v1/imports?": { imports: [imported] },
  [`/v1/imports/${id}/events`]: { events: 1, whole: true, still_to_be_stored: 0 },
  "/v1/imports/": { ...imported, still_to_be_stored: 0, refused: [{ line: 1, reason: "r" }] },
  "/v1/journeys?": { journeys: [journey] },
  "/v1/journeys/j": { ...journey, document: { description: "d" }, versions: [], counts: { steps: [step1], conversions: { [nasty]: 1 }, control: 0, control_conversions: {} } },
  "/v1/accounts": { accounts: [account] },
  "/v1/keys": { keys: [{ id: "k", name: "n", permissions: ["events:write"], created: time }] },
  "/v1/groups": { groups: [group] },
  "/v1/settings": {
    routes: [{ route: "r", set: "s", breaker: "open", paused_domains: 1, mails: 1, throttled: 0, pace_share: 1, why: "w" }], domains: [{ domain: "d", errors: 1, warnings: 1, ok: 0, unknown: 0 }],
    settings: [{ name: "sending", value: "v", set: "s" }],
  },
  "/v1/audit": { entries: [{ id: "1", time, account: "a", name: "n", method: "PUT", path: "p", status: 200, detail: "d", before: { name: "n", [nasty]: "x" }, after: { name: "m", not_compared: 980 } }] },
};

/** answerOf is what a URL is answered, nasty. */
function answerOf(asked) {
  const { pathname, search } = new URL(asked);
  const found = Object.keys(answers).filter((k) => `${pathname}${search || "?"}`.includes(k)).sort((a, b) => b.length - a.length)[0];
  const json = found && spoiled(answers[found]);
  for (const s of [...(json?.suppressions ?? []), ...(json?.results ?? [])]) s.reason = "manual"; // one of a few
  for (const e of json?.entries ?? []) if (e.suppression) e.suppression.reason = "manual";
  for (const s of json?.settings ?? []) s.name = "sending"; // our own
  return json;
}

// The pages, each with a text that it has when it is answered well.
const pages = [
  ["/", "Oldest not stored"], ["/people?q=eve", "eve@example.com"], ["/people/PERSON", "What happened"], ["/messages", "eve@example.com"], ["/messages/MESSAGE", "First opened"], ["/doubts", "Nothing is in doubt"], ["/reactions", "Automatic replies"],
  ["/mailbox", "eve@example.com"], ["/mailbox/1", "What became of it"], ["/suppressions", "Nobody is suppressed"], ["/dead-letters", "No dead letters"], ["/series", "Name"], ["/imports", "Nothing was imported"], ["/journeys", "No journeys yet"],
  ["/settings/accounts", "ann@example.com"], ["/settings/keys", "No keys yet"], ["/settings/groups", "No group has a name"], ["/settings/routes", "Sender domains"], ["/settings/audit", "Before and after"],
];
const api = /\/(v1|users)\/(?!session)/;
const tryAgain = (at) => at.evaluate(() => [...document.querySelectorAll("button")].filter((b) => b.textContent === "Try again").forEach((b) => b.click()));

(async () => {
  const browser = await launch();
  const page = await open(browser, 1280, "light");
  let person, message;
  const pathOf = (path) => url + path.replace("PERSON", person).replace("MESSAGE", message);

  await step("set up", async () => {
    await page.goto(link);
    await page.getByLabel("Name").fill("ann@example.com");
    await page.getByLabel("Password", { exact: true }).fill(password);
    await page.getByLabel("Password again").fill(password);
    await page.getByRole("button", { name: "Make the account" }).click();
    await heading(page, "Overview");
    person = (await ask(page, "GET", "/v1/users?q=eve@")).body.users[0].braze_id;
    message = (await ask(page, "GET", "/v1/sends?to=eve@example.com")).body.sends[0].message;
    await ask(page, "POST", "/v1/accounts", { name: "vic@example.com", role: "viewer", password });
  });
  await step("no answer is told of within 15 seconds", async () => {
    const wrong = [];
    for (const [path, there] of pages) {
      const at = await as(browser, page);
      await at.clock.install();
      await at.route(api, () => undefined); // is never answered
      await at.goto(pathOf(path));
      await at.getByRole("heading", { level: 1 }).waitFor();
      await at.clock.runFor(14_000);
      const told = at.getByText(/The server (has not answered|does not answer)/);
      if (await told.count() === 0) wrong.push(`${path} says nothing after 14 seconds`);
      wrong.push(...(await judged(at, `${path} that waits`)));
      await at.clock.runFor(20_000);
      await at.unroute(api);
      await at.clock.resume();
      await tryAgain(at);
      await at.getByText(there).first().waitFor().catch(() => wrong.push(`${path} does not recover`));
      await at.context().close();
    }
    assert.equal(wrong.join("\n"), "");
  });
  await step("an error of the server, on every page", async () => {
    const wrong = [];
    for (const [path, there] of pages) {
      const at = await as(browser, page);
      await at.clock.install();
      await at.route(api, (r) => r.fulfill({ status: 503, json: { error: { code: "unavailable", message: nasty } } }));
      await at.goto(pathOf(path));
      await at.getByRole("heading", { level: 1 }).waitFor();
      await at.clock.runFor(10_000);
      await at.getByText("<img src=x").first().waitFor().catch(() => wrong.push(`${path} does not tell of an error`));
      if (turning.test(await at.evaluate(() => document.body.innerText))) wrong.push(`${path}: an error turns the text`);
      wrong.push(...(await judged(at, `${path} with an error`)));
      await at.unroute(api);
      await at.clock.resume();
      await tryAgain(at);
      await at.getByText(there).first().waitFor().catch(() => wrong.push(`${path} does not recover`));
      await at.context().close();
    }
    assert.equal(wrong.join("\n"), "");
  });
  await step("an error that comes slowly is told of at once", async () => {
    const at = await as(browser, page);
    await at.clock.install();
    let asked = 0;
    await at.goto(url);
    await heading(at, "Overview");
    await at.route(/\/v1\/suppressions/, async (r) => {
      asked++;
      await at.clock.runFor(5_000);
      await r.fulfill({ status: 504, contentType: "text/html", body: "<h1>proxy</h1>" });
    });
    await at.getByRole("link", { name: "Suppressions" }).click();
    await at.getByText("The answer cannot be read (status 504)").waitFor();
    assert.equal(asked, 1, "what was slow is repeated by itself");
    await at.context().close();
    forgive(/status of 504/);
  });
  await step("figures that cannot be asked for again", async () => {
    const at = await as(browser, page);
    await at.clock.install();
    const failing = /\/v1\/(series|reactions|sending)\b/;
    for (const [path, there, told] of [["/", "24 hours and the one that runs", ["The figures below are old. it broke", "What is stopped is not known. it broke"]], ["/reactions", "Automatic replies", ["Not all figures below are known, or they are old. it broke"]]]) {
      await at.goto(url + path);
      await at.getByText(there).first().waitFor();
      await at.waitForFunction(() => !document.body.innerText.includes("Loading"));
      await at.route(failing, (r) => r.fulfill({ status: 500, json: { error: { code: "internal", message: "it broke" } } }));
      await at.clock.runFor(45_000); // until they are asked for, and twice more
      for (const text of told) await at.getByText(text).waitFor();
      await at.unroute(failing);
      await tryAgain(at);
      await at.getByText("it broke").first().waitFor({ state: "detached" });
    }
    await at.context().close();
    forgive(/status of 500/);
  });
  await step("answers of another form", async () => {
    const wrong = [];
    for (const body of ["{}", "null"]) {
      for (const [path] of pages) {
        const at = await as(browser, page);
        await at.route(api, (r) => r.fulfill({ contentType: "application/json", body }));
        await at.goto(pathOf(path));
        await at.getByText(/This page cannot be shown|cannot be read|does not answer|Nothing|No |There is no|Try again|Load/).first().waitFor().catch(() => wrong.push(`${path} shows nothing of ${body}`));
        await at.context().close();
      }
    }
    forgive(/TypeError|Minified React|EventSource/); // of what cannot be drawn, the console tells as well
    assert.equal(wrong.join("\n"), "");
  });
  await step("hostile texts on every page", async () => {
    const wrong = [];
    const paths = ["/people?q=x", "/people/0123456789abcdef01234567", "/messages", `/messages/${id}`, "/doubts", "/reactions", "/mailbox", "/mailbox/1", "/suppressions", "/dead-letters", "/series", "/imports", `/imports/${id}`, "/journeys", "/journeys/j",
      "/settings/accounts", "/settings/keys", "/settings/groups", "/settings/routes", "/settings/audit"];
    for (const [width, scheme] of [[1280, "light"], [390, "dark"], [320, "light"]]) {
      const at = await open(browser, width, scheme);
      await at.context().addCookies((await page.context().storageState()).cookies);
      await at.route(api, async (r) => {
        const json = answerOf(r.request().url());
        return json ? r.fulfill({ json }) : r.continue();
      });
      for (const path of paths) {
        const where = `${path} ${width}`;
        await at.goto(url + path);
        await at.getByRole("heading", { level: 1 }).waitFor();
        await at.getByText("Loading", { exact: true }).first().waitFor({ state: "detached" });
        if (path === "/mailbox/1") await at.getByRole("button", { name: "Show the source" }).click();
        if (path === "/dead-letters") await at.getByRole("button", { name: "1", exact: true }).click().then(() => at.getByText("Size").waitFor());
        const text = await at.evaluate(() => document.body.innerText);
        if (!text.includes("[U+202E]")) wrong.push(`${where} shows nothing hostile`);
        if (turning.test(text)) wrong.push(`${where}: a text turns what is beside it`);
        const long = await at.evaluate(() => [...document.querySelectorAll("tr, h1, h2, dd, li, p, button, a, option, .banner")].filter((e) => innerWidth >= 390 && e.getBoundingClientRect().height > 700 && !e.querySelector("pre, table, li, p")).map((e) => e.outerHTML.slice(0, 150)));
        wrong.push(...long.map((html) => `${where} is very high: ${html}`), ...(await judged(at, where)));
        const height = await at.evaluate(() => document.documentElement.scrollHeight);
        if (width >= 390 && height > 6000) wrong.push(`${where} is ${height} pixels high`);
        else if (shots) await at.screenshot({ path: `${shots}/bad${path.replace(/\W+/g, "_")}-${width}.png` });
        for (const button of await at.getByRole("button", { name: /^(Remove|Change|Decide|Revoke|Sign out|Look now|Undo|Pause|Erase|Show all)$/ }).or(at.locator(".as-link")).all()) {
          if (width === 320 || !(await button.isVisible()) || await button.evaluate((b) => b.closest(".side") !== null)) continue;
          await button.click();
          const dialog = at.getByRole("alertdialog").or(at.getByRole("dialog"));
          await dialog.waitFor();
          const said = await dialog.innerText();
          if (turning.test(said)) wrong.push(`${where}: a dialog's text turns`);
          const box = await dialog.boundingBox();
          if (box.x < 0 || box.x + box.width > width || box.y < 0 || box.y + box.height > 844) wrong.push(`${where}: a dialog is beyond the window: ${JSON.stringify(box)}`);
          wrong.push(...(await judged(at, `${where}, the dialog "${said.slice(0, 40)}"`)));
          await at.keyboard.press("Escape");
          await dialog.waitFor({ state: "detached" });
        }
      }
      assert.equal(await at.evaluate(() => window.hacked), undefined, "a script in a text was run");
      await at.context().close();
    }
    assert.ok(wrong.length === 0, wrong.join("\n"));
  });
  await step("another account in the same tab", async () => {
    const at = await open(browser, 1280, "light");
    await signIn(at, "ann@example.com");
    await at.route(/\/v1\/suppressions\b/, (r) => r.fulfill({ json: { suppressions: [{ entry: "secret@example.com", reason: "manual", scope: "all", app_id: "", source: "s", time, removed: false }] } }));
    await at.getByRole("link", { name: "Suppressions" }).click();
    await at.getByText("secret@example.com").waitFor();
    await at.unroute(/\/v1\/suppressions\b/);
    const ann = (await ask(page, "GET", "/v1/accounts")).body.accounts.find((a) => a.name === "ann@example.com");
    assert.equal((await ask(at, "DELETE", `/v1/accounts/${ann.id}/sessions`)).status, 204);
    await heading(at, "Sign in");
    assert.equal(new URL(at.url()).searchParams.get("next"), "/suppressions");
    await at.route(/\/v1\/suppressions\b/, () => undefined); // is never answered
    await at.getByLabel("Name").fill("vic@example.com");
    await at.getByLabel("Password").fill(password);
    await at.keyboard.press("Enter");
    await heading(at, "Suppressions");
    await at.getByText("Loading", { exact: true }).waitFor({ state: "attached" });
    assert.equal(await at.getByText("secret@example.com").count(), 0, "what another account has seen is shown");
    await at.context().close();
    await signIn(page, "ann@example.com"); // its session has ended, too
  });
  await step("another account in another tab", async () => {
    const at = await open(browser, 1280, "light");
    await signIn(at, "ann@example.com");
    await at.goto(`${url}/settings/accounts`);
    await at.getByRole("cell", { name: "vic@example.com" }).waitFor();
    const other = await at.context().newPage(); // both are looked at, as two windows are
    await other.goto(url);
    await heading(other, "Overview");
    await other.getByRole("button", { name: "Sign out" }).click();
    await heading(other, "Sign in");
    await heading(at, "Sign in");
    await signIn(other, "vic@example.com");
    await at.getByText("vic@example.com").first().waitFor();
    await at.getByText("viewer", { exact: true }).waitFor();
    assert.equal(await at.getByRole("link", { name: "Settings" }).count(), 0);
    // Without a word of the other tab, it asks when it is looked at again.
    await at.evaluate(([name, password]) => fetch("/v1/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name, password }) }), ["ann@example.com", password]);
    await at.evaluate(() => window.dispatchEvent(new Event("visibilitychange")));
    await at.getByText("admin", { exact: true }).waitFor();
    await at.context().close();
  });
  await step("a session that ends while a form is filled in", async () => {
    const at = await open(browser, 1280, "light");
    await signIn(at, "ann@example.com");
    await at.goto(`${url}/suppressions`);
    await at.getByRole("button", { name: "Suppress an address" }).click();
    await at.getByLabel("Address, or a domain").fill("mallory@example.com");
    await at.context().clearCookies();
    await at.getByRole("button", { name: "Suppress", exact: true }).click();
    await heading(at, "Sign in");
    await at.getByLabel("Name").fill("ann@example.com");
    await at.getByLabel("Password").fill(password);
    await at.keyboard.press("Enter");
    await heading(at, "Suppressions");
    await at.context().close();
  });
  await step("a list that changes while a form in it is filled in", async () => {
    const at = await as(browser, page);
    await at.clock.install();
    await at.goto(`${url}/settings/accounts`);
    await at.getByRole("row", { name: "vic@example.com" }).getByRole("button", { name: "Change" }).click();
    const dialog = at.getByRole("dialog");
    await dialog.getByLabel("New password").fill("a long new password");
    assert.equal((await ask(page, "POST", "/v1/accounts", { name: "new@example.com", role: "viewer", password })).status, 201);
    await at.clock.fastForward(6_000); // more than a list may be old
    await at.evaluate(() => window.dispatchEvent(new Event("visibilitychange"))); // its tab is looked at again
    await at.getByText("new@example.com").waitFor({ state: "attached" });
    assert.equal(await dialog.getByLabel("New password").inputValue(), "a long new password", "what was written is gone");
    const vic = async () => (await ask(page, "GET", "/v1/accounts")).body.accounts.find((a) => a.name === "vic@example.com");
    assert.equal((await ask(page, "PUT", `/v1/accounts/${(await vic()).id}`, { role: "editor" })).status, 204);
    await dialog.getByLabel("New password").fill("");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal((await vic()).role, "editor", "a form that was left as it was has changed a role");
    await ask(page, "PUT", `/v1/accounts/${(await vic()).id}`, { role: "viewer" });
    await at.context().close();
  });
  await step("what to do first, where nothing was ever done", async () => {
    const { body } = await ask(page, "GET", "/v1/overview");
    const begun = { ...body, accepted: 0, stored: 0, sends: [] }; // as a process says that has just begun
    for (const [name, counted, key, file] of [["ann@example.com", true, 0, 0], ["ann@example.com", false, 1, 1], ["vic@example.com", false, 0, 0]]) {
      const at = await open(browser, 1280, "light");
      await signIn(at, name);
      await at.route(/\/v1\/overview\/stream$/, (r) => r.fulfill({ contentType: "text/event-stream", body: `data: ${JSON.stringify(begun)}\n\n` }));
      await at.route(/\/v1\/overview$/, (r) => r.fulfill({ json: begun }));
      if (!counted) await at.route(/\/v1\/series\?step=day$/, (r) => r.fulfill({ json: { from: time, to: time, step: "day", series: [] } }));
      const [answered] = await Promise.all([at.waitForResponse(/\/v1\/series\?step=day$/), at.goto(url)]);
      await answered.finished();
      await at.getByText("No journeys yet").waitFor();
      await at.getByText(/0 taken in/).waitFor();
      assert.equal(await at.getByRole("button", { name: "Send a first mail" }).count(), name === "ann@example.com" ? 1 : 0, `${name} and a first mail`);
      if (key + file > 0) await at.getByRole("link", { name: "Make a key" }).waitFor();
      const links = [await at.getByRole("link", { name: "Make a key" }).count(), await at.getByRole("link", { name: "Import a file" }).count()];
      assert.deepEqual(links, [key, file], `${name}, ${counted ? "counts" : "no counts"}`);
      await at.context().close();
    }
  });
  await step("one of several processes", async () => {
    const { body } = await ask(page, "GET", "/v1/overview");
    const sends = [["marketing", "waiting", 1000], ["transactional", "waiting", 234], ["marketing", "sent", 5]].map(([of, state, count]) => ({ class: of, state, count }));
    const shared = { ...body, processes: 3, sends, in_doubt: 0, lanes: [{ priority: "normal", waiting: 400, oldest_seconds: 1 }] };
    const at = await as(browser, page);
    await at.route(/\/v1\/overview\/stream$/, (r) => r.fulfill({ contentType: "text/event-stream", body: `data: ${JSON.stringify(shared)}\n\n` }));
    await at.route(/\/v1\/overview$/, (r) => r.fulfill({ json: shared }));
    await at.goto(url);
    await at.getByText("1,234 of all processes").waitFor();
    await at.getByText("of this process alone").waitFor();
    await at.getByText("of what this process stores").waitFor();
    await at.context().close();
  });
  await step("a search that is gone back to", async () => {
    for (const [path, label, name] of [["/people", "Id or address", "q"], ["/messages", "To the address", "to"], ["/mailbox", "To the address", "to"], ["/suppressions", "Address or domain", "entry"]]) {
      await page.goto(url + path);
      for (const text of ["ann@example.com", "bob@example.com"]) {
        await page.getByLabel(label).fill(text);
        await page.keyboard.press("Enter");
        await page.waitForURL((u) => u.searchParams.get(name) === text);
      }
      await page.goBack();
      await page.waitForURL((u) => u.searchParams.get(name) === "ann@example.com");
      assert.equal(await page.getByLabel(label).inputValue(), "ann@example.com", `${path} has a text that was not searched for`);
    }
  });
  await step("lists of several pages", async () => {
    const listed = async (path, asked, make, more) => {
      await page.route(asked, (r) => {
        const after = new URL(r.request().url()).searchParams.get("after");
        return r.fulfill({ json: make(after ? 1 : 0) });
      });
      await page.goto(url + path);
      await page.getByText("first of all").waitFor();
      await page.getByRole("button", { name: more }).click();
      await page.getByText("second of all").waitFor();
      await page.getByRole("button", { name: more }).waitFor({ state: "detached" });
      await page.unroute(asked);
    };
    const name = (n) => ["first of all", "second of all"][n];
    await listed("/journeys", /\/v1\/journeys\?|\/v1\/journeys$/, (n) => ({ journeys: [{ ...journey, id: `j${n}`, name: name(n), hold: undefined }], ...(n === 0 && { next: "j0" }) }), "More");
    await listed("/doubts", /\/v1\/ledger\/doubts/, (n) => ({ doubts: [{ ...send, send: `${id}.${n}`, to: name(n), undecided: true }], ...(n === 0 && { next: `${id}.0` }) }), "More");
    const at = await as(browser, page);
    await at.route(/\/timeline\b/, (r) => (r.request().url().includes("before=") ? undefined : r.fulfill({ json: { user: { braze_id: person }, entries: [], next: "more" } })));
    await at.goto(`${url}/people/${person}`);
    await at.getByRole("button", { name: "Look further back" }).press("Enter");
    await at.getByRole("button", { name: "Looking" }).waitFor();
    await at.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await at.evaluate(() => document.activeElement.textContent), "Looking", "the button that was pressed loses the keyboard");
    await at.context().close();
  });
  await step("a dead letter at the end of a list", async () => {
    await page.route(/\/v1\/dead\b/, (r) => r.fulfill({ json: r.request().url().includes("/dead/") ? answers["/v1/dead/1"] : { dead_letters: Array.from({ length: 90 }, (_, i) => ({ ...answers["/v1/dead/1"], id: 90 - i })) } }));
    await page.goto(`${url}/dead-letters`);
    await page.getByRole("button", { name: "1", exact: true }).click();
    const head = page.getByRole("heading", { name: "Dead letter 1" });
    await head.waitFor();
    const box = await head.boundingBox();
    assert.ok(box.y >= 0 && box.y < 844, `what is opened is beyond the window: ${JSON.stringify(box)}`);
    await page.unroute(/\/v1\/dead\b/);
  });
  await step("a dialog whose call fails keeps the keyboard", async () => {
    await page.goto(`${url}/suppressions`);
    await page.getByRole("button", { name: "Suppress an address" }).press("Enter");
    const dialog = page.getByRole("dialog");
    await page.getByLabel("Address, or a domain").fill("no address at all");
    await page.keyboard.press("Enter");
    await dialog.getByRole("alert").waitFor();
    assert.ok(await dialog.evaluate((d) => d.contains(document.activeElement)), "the keyboard has left the form");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.route(/\/v1\/sending\/pause/, (r) => r.fulfill({ status: 503, json: { error: { code: "unavailable", message: "Redis does not answer" } } }));
    await page.goto(url);
    await page.getByRole("button", { name: "Stop marketing mail" }).press("Enter");
    const asks = page.getByRole("alertdialog");
    await asks.getByRole("button", { name: "Stop marketing mail" }).press("Enter");
    await asks.getByRole("alert").getByText("Redis does not answer").waitFor();
    await accessible(page, "a dialog with an error");
    assert.ok(await asks.evaluate((d) => d.contains(document.activeElement)), "the keyboard has left the question");
    await page.unroute(/\/v1\/sending\/pause/);
    await page.keyboard.press("Escape");
    await asks.waitFor({ state: "detached" });
    forgive(/status of 400/);
  });
  await step("a dialog that is left while its call is under way", async () => {
    const held = async (path, act) => { // the answer comes when the dialog was left
      let release;
      const waited = new Promise((done) => { release = done; });
      await page.route(path, async (r) => { await waited; await act(r); });
      return async () => { release(); };
    };
    await page.goto(url);
    let answer = await held(/\/v1\/sending\/pause/, (r) => r.fulfill({ status: 503, json: { error: { code: "unavailable", message: "Redis does not answer" } } }));
    await page.getByRole("button", { name: "Stop marketing mail" }).click();
    const asks = page.getByRole("alertdialog");
    await asks.getByRole("button", { name: "Stop marketing mail" }).click();
    await page.keyboard.press("Escape");
    await asks.waitFor({ state: "detached" });
    await answer();
    await asks.getByRole("alert").getByText("Redis does not answer").waitFor();
    await page.keyboard.press("Escape");
    await asks.waitFor({ state: "detached" });
    await page.unroute(/\/v1\/sending\/pause/);
    await page.goto(`${url}/settings/keys`);
    answer = await held(/\/v1\/keys/, (r) => r.continue());
    await page.getByRole("button", { name: "Make a key" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Make it" }).click();
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Cancel" }).click({ force: true }); // it is disabled
    await answer();
    await dialog.getByText("This key is not shown again").waitFor();
    await page.mouse.click(5, 5); // beside the dialog
    await dialog.getByText(/^slk_/).waitFor();
    await page.unroute(/\/v1\/keys/);
    await dialog.getByRole("button", { name: "Done" }).click();
    await dialog.waitFor({ state: "detached" });
  });
  await step("the menu of a phone by the keyboard", async () => {
    const at = await as(browser, page, 390);
    await at.goto(url);
    await heading(at, "Overview");
    const trigger = at.getByRole("button", { name: "Menu" });
    await trigger.press("Enter");
    await at.getByRole("menuitem", { name: "Overview" }).waitFor();
    await accessible(at, "the menu of a phone");
    const box = await at.getByRole("menu").boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 390 && box.y + box.height <= 844, "the menu is beyond the window");
    await at.keyboard.press("Escape");
    await at.waitForFunction(() => document.activeElement.textContent === "Menu"); // a moment later
    await trigger.press("Enter");
    for (const name of ["People", "Messages"]) {
      await at.keyboard.press("ArrowDown");
      await at.locator("[role=menuitem][data-highlighted]").getByText(name).or(at.locator("[role=menuitem][data-highlighted]").filter({ hasText: name })).first().waitFor();
    }
    await at.keyboard.press("Enter");
    await heading(at, "Messages");
    await at.context().close();
  });
  await browser.close();
})().catch((e) => {
  console.log(`FAIL ${e.stack}`);
  process.exit(1);
});
