// Shows the dashboard answers of which it must say no more than is true, for
// TestDashboardSaysWhatIsTrue. It is started as dashboard.cjs is.
const assert = require("node:assert/strict");
const { url, link, password, launch, open, step, until, heading, ask, as, forgive, accessible } = require("./dashboard_kit.cjs");

const time = "2026-01-31T10:00:00Z", later = "2026-01-31T10:00:05Z";
const sendOf = (n, more) => ({ send: `m.${n}`, message: "m", to: `person-${n}@example.com`, from: "shop@example.com", state: "sent", class: "marketing", priority: "normal", tags: "", attempts: 1, accepted: time, updated: time, life: [], ...more });

/** asked counts the requests of a page whose URLs match. */
function asked(page, path) {
  const all = [];
  page.on("request", (r) => { if (path.test(r.url())) all.push(r.url()); });
  return all;
}

/** settled waits until a page has drawn what it knows. */
const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

const figure = (page, name) => page.locator(".figure").filter({ has: page.getByText(name, { exact: true }) });

(async () => {
  const browser = await launch();
  const page = await open(browser, 1280, "light");

  await step("set up", async () => {
    await page.goto(link);
    await page.getByLabel("Name").fill("ann@example.com");
    await page.getByLabel("Password", { exact: true }).fill(password);
    await page.getByLabel("Password again").fill(password);
    await page.getByRole("button", { name: "Make the account" }).click();
    await heading(page, "Overview");
  });
  await step("what came too late in the life of a mail", async () => {
    const life = [
      { at: later, event: "sent", route: "relay", attempt: 1 }, { left_out: 7 },
      { at: later, event: "failed", state: "failed" }, { at: time, event: "delivered", late: true, remote: "mx" }, { at: "2026-01-31T10:00:15Z", event: "bounced" },
    ];
    const at = await as(browser, page);
    await at.route(/\/v1\/sends\?message=m$/, (r) => r.fulfill({ json: { sends: [sendOf(0, { life })] } }));
    await at.goto(`${url}/messages/m`);
    await at.getByText("First opened").waitFor();
    const lines = at.locator(".life li");
    assert.equal(await lines.nth(1).textContent(), "7 more, left out");
    assert.match(await lines.nth(3).textContent(), /^delivered31 Jan 2026[^+]*too late: it changed nothing · mx$/);
    assert.equal(await lines.nth(3).getAttribute("class"), "plain");
    assert.match(await lines.nth(4).textContent(), /\(\+10 s\)/); // since the line before that was in time
    await accessible(at, "a life with a late line");
    await at.context().close();
  });
  await step("a journey of several versions", async () => {
    const at = (name, entered) => ({ step: name, entered, waiting: 0, passed: entered, exited: 0, left_out: 0, sent: 0, opened: 0, clicked: 0, opened_raw: 0, clicked_raw: 0 });
    const counts = { steps: [at("new", 50), at("hello", 100)], conversions: { order: 120 }, limited: 0, control: 0, control_conversions: {}, uplift: [], path_uplift: [], global_uplift: [] };
    const two = { id: "two", name: "Two", status: "live", version: 2, revision: 2, created: time, updated: time, document: { id: "two" }, versions: [], counts };
    await page.route(/\/v1\/journeys\/two$/, (r) => r.fulfill({ json: two }));
    await page.goto(`${url}/journeys/two`);
    await figure(page, "Entered").getByText("at least 100").waitFor();
    assert.match(await figure(page, "Converted").textContent(), /120\.0% of the 100 who came to hello$/);
    await page.getByText("shares are of the 100 who came to hello").waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("alertdialog").getByText("What takes people out still does.").waitFor();
    await page.unroute(/\/v1\/journeys\/two$/);
  });
  await step("a domain that holds back the mail of an app", async () => {
    assert.equal((await ask(page, "POST", "/v1/suppressions", { suppressions: [{ entry: "a.example.com", app_id: "blog", scope: "marketing" }, { entry: ".example.com", app_id: "shop" }] })).status, 200);
    await page.goto(`${url}/suppressions?entry=eve@a.example.com`);
    await page.getByText("is held back by its domain: manual, marketing of the app blog; manual, all mail of the app shop.").waitFor();
    await page.getByText("The address itself is not suppressed").waitFor();
    const { body } = await ask(page, "GET", "/v1/users?q=eve@");
    await page.goto(`${url}/people/${body.users[0].braze_id}`);
    await page.getByText("by its domain: manual, all mail of the app shop").waitFor();
    await ask(page, "POST", "/v1/suppressions/remove", { entries: ["a.example.com", ".example.com"] });
    await page.goto(`${url}/suppressions?entry=eve@a.example.com`);
    await page.getByText("It is not suppressed").waitFor();
  });
  await step("a group that somebody else has changed", async () => {
    const group = async () => (await ask(page, "GET", "/v1/groups")).body.groups[0];
    const news = { name: "News", description: "Each week", public: true, order: 7 };
    assert.equal((await ask(page, "PUT", "/v1/groups/news", news)).status, 200);
    await page.goto(`${url}/settings/groups`);
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Name a group" }).click();
    await dialog.getByLabel("Id").fill("news");
    await dialog.getByLabel("Name").fill("Another");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("There is a group with this id already").waitFor();
    assert.equal((await group()).name, "News", "a group took the place of another one");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    const change = page.getByRole("row", { name: "News" }).getByRole("button", { name: "Change" });
    await change.click();
    await ask(page, "PUT", "/v1/groups/news", { ...news, public: false });
    await dialog.getByLabel("Order").fill("8");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("changed or removed this group meanwhile").waitFor();
    assert.equal((await group()).public, false, "the change of somebody else is undone");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("private").waitFor();
    await change.click();
    await dialog.getByLabel("Order").fill("8");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    const { public: seen, order } = await group();
    assert.deepEqual([seen, order], [false, 8]);
    await page.getByRole("row", { name: "News" }).getByText("8", { exact: true }).waitFor();
    await change.click(); // it is saved, and the answer is lost
    await ask(page, "PUT", "/v1/groups/news", { ...news, public: false, order: 9 });
    await dialog.getByLabel("Order").fill("9");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Name a group" }).click();
    await dialog.getByLabel("Id").fill("other");
    await dialog.getByLabel("Name").fill("Other");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByRole("row", { name: "Other" }).waitFor();
  });
  await step("a mailbox that has begun anew", async () => {
    let subject = "the old mail";
    const mail = () => ({ number: 1, time, send: `${subject.replaceAll(" ", "")}.0`, from: "a@example.com", to: "b@example.com", subject, tags: [], bytes: 9 });
    await page.route(/\/v1\/mailboxes\?/, (r) => r.fulfill({ json: { mails: r.request().url().includes("to=") ? [] : [mail()] } }));
    await page.route(/\/v1\/mailboxes\/1$/, (r) => r.fulfill({ json: { ...mail(), raw: "" } }));
    await page.route(/\/v1\/mailboxes\/1\/view$/, (r) => r.fulfill({ contentType: "text/html", body: "<title>mail</title>" }));
    await page.goto(`${url}/mailbox`);
    await page.getByRole("link", { name: "the old mail" }).click();
    await heading(page, "the old mail");
    subject = "the new mail";
    await page.getByRole("main").getByRole("link", { name: "Mailbox" }).click();
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByRole("link", { name: "the new mail" }).click();
    await heading(page, "the new mail");
    await page.getByRole("main").getByRole("link", { name: "Mailbox" }).click();
    await page.getByLabel("To the address").fill("nobody@example.com");
    await page.keyboard.press("Enter");
    await page.getByText("No mail to this address is kept").waitFor();
    for (const path of [/\/v1\/mailboxes\?/, /\/v1\/mailboxes\/1$/, /\/v1\/mailboxes\/1\/view$/]) await page.unroute(path);
  });
  await step("bounces of what was refused at once", async () => {
    const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000).toISOString();
    const series = [["sent", 100], ["bounced", 50]].map(([name, count]) => ({ time: hour, name, count }));
    await page.route(/\/v1\/series\?kind=mail/, (r) => r.fulfill({ json: { from: hour, to: hour, step: "hour", series } }));
    await page.goto(url);
    await figure(page, "Bounced").getByText("50.0 for each 100 sent").waitFor();
    await figure(page, "Sent").getByText("24 hours and the one that runs").waitFor();
    await page.unroute(/\/v1\/series\?kind=mail/);
  });
  await step("a mail that a machine has opened", async () => {
    const { body } = await ask(page, "GET", "/v1/users?q=eve@");
    const mails = [{ state: "failed", first_open: time, first_click: time }, { first_open: time, first_human_open: later }].map((m, i) => ({ kind: "mail", time, what: "m", mail: sendOf(i, m) }));
    await page.route(/\/timeline\b/, (r) => r.fulfill({ json: { user: { braze_id: body.users[0].braze_id }, entries: mails } }));
    await page.goto(`${url}/people/${body.users[0].braze_id}`);
    const lines = page.getByRole("list", { name: "What happened" }).getByRole("listitem");
    await lines.nth(1).waitFor();
    assert.match(await lines.nth(0).textContent(), /failedopened .*, by a machine alone · clicked .*, by a machine alone$/);
    assert.match(await lines.nth(1).textContent(), /sentopened .*05, by a person; .*00, by a machine$/);
    await page.unroute(/\/timeline\b/);
  });
  await step("a change of which nobody knows whether it was made", async () => {
    const entries = [503, 403, 200].map((status, i) => ({ id: String(i), time, account: "a", name: "ann", method: "PUT", path: `/v1/groups/${i}`, status, detail: "d" }));
    await page.route(/\/v1\/audit/, (r) => r.fulfill({ json: { entries } }));
    await page.goto(`${url}/settings/audit`);
    for (const [i, said] of ["not known 503", "refused 403", "done"].entries()) await page.getByRole("row").filter({ hasText: `/v1/groups/${i}` }).getByText(said, { exact: true }).waitFor();
    await page.unroute(/\/v1\/audit/);
  });
  await step("a dead letter whose content is kept back", async () => {
    const letter = { id: 1, time, source: "s", form: "event", partition: 0, reason: "r" };
    await page.route(/\/v1\/dead\b/, (r) => r.fulfill({ json: r.request().url().includes("/dead/") ? { ...letter, payload_bytes: 90_000 } : { dead_letters: [letter] } }));
    await page.goto(`${url}/dead-letters`);
    await page.getByRole("button", { name: "1", exact: true }).click();
    await page.getByText("your role lacks the permission optin:write").waitFor();
    assert.equal(await page.locator("pre").count() + await page.getByText("are shown").count(), 0);
    await page.unroute(/\/v1\/dead\b/);
  });
  await step("marketing mail that somebody else has just resumed", async () => {
    await ask(page, "POST", "/v1/sending/pause", { by: "class", value: "marketing" });
    await page.route(/\/v1\/sending\/resume$/, (r) => r.fulfill({ json: { was_stopped: false } }));
    await page.route(/\/v1\/sending$/, (r) => r.fulfill({ json: { stopped: [{ by: "tag", value: "spring", note: "" }] } }));
    await page.goto(url);
    await page.getByRole("button", { name: "Resume marketing mail" }).click();
    const dialog = page.getByRole("alertdialog");
    await dialog.getByRole("button", { name: "Resume marketing mail" }).click();
    await dialog.waitFor({ state: "detached" });
    for (const path of [/\/v1\/sending\/resume$/, /\/v1\/sending$/]) await page.unroute(path);
    await ask(page, "POST", "/v1/sending/resume", { by: "class", value: "marketing" });
    await page.getByRole("button", { name: "Stop marketing mail" }).waitFor();
  });
  await step("reactions to mail of no campaign", async () => {
    const all = asked(page, /\/v1\/reactions/);
    await page.goto(`${url}/reactions?campaign=`);
    await page.getByText("Only of the campaign none").waitFor();
    await until(() => all.length >= 2, "nothing is asked");
    for (const one of all) assert.equal(new URL(one).searchParams.get("campaign"), "", one);
  });
  await step("a tab that was hidden", async () => {
    const at = await as(browser, page);
    await at.clock.install();
    await at.goto(url);
    await at.getByText("Oldest not stored").waitFor();
    const turn = (hidden) => at.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    await at.route(/\/v1\/overview/, () => undefined); // is never answered
    await turn(true);
    await at.clock.runFor(20_000);
    await turn(false);
    await settled(at);
    assert.equal(await at.getByText("has not answered").count(), 0, "the server is said not to have answered what it was not asked");
    await at.clock.runFor(20_000);
    await at.getByText("has not answered").first().waitFor();
    await at.context().close();
  });
  await step("long lists are not asked for again by themselves", async () => {
    const pages = (name, make) => (r) => {
      const n = new URL(r.request().url()).searchParams.has(name) ? 1 : 0;
      return r.fulfill({ json: { ...make(n), ...(n === 0 && { next: "m.0" }) } });
    };
    for (const [path, route, answer, more] of [
      ["/doubts", /\/v1\/ledger\/doubts/, pages("after", (n) => ({ doubts: [sendOf(n, { state: "in_doubt", undecided: true })] })), "More"],
      ["/messages", /\/v1\/sends\?/, pages("before", (n) => ({ sends: [sendOf(n)] })), "Look further back"],
    ]) {
      const at = await as(browser, page);
      await at.clock.install();
      await at.route(route, answer);
      const all = asked(at, route);
      await at.goto(url + path);
      await at.getByText("person-0@").first().waitFor();
      const look = async () => {
        await at.clock.runFor(25_000);
        await at.evaluate(() => window.dispatchEvent(new Event("visibilitychange")));
        await settled(at);
        await at.clock.runFor(1_000);
      };
      await look();
      assert.ok(all.length > 1, `${path} of one page is not asked for again`);
      await at.getByRole("button", { name: more }).click();
      await at.getByText("person-1@").first().waitFor();
      const before = all.length;
      await look();
      assert.equal(all.length, before, `${path} of several pages is asked for again`);
      await at.context().close();
    }
  });
  await step("a file with a byte order mark", async () => {
    await page.goto(`${url}/imports`);
    const fileInput = page.getByLabel(/^Choose /);
    await fileInput.setInputFiles({ name: "one.csv", mimeType: "text/csv", buffer: Buffer.from("\ufeffevent,time,user_id\nseen,2026-01-31T10:00:00Z,u1") });
    await page.getByRole("region", { name: "First lines" }).getByText("u1").waitFor();
    assert.equal(await page.getByRole("button", { name: "Start the import" }).isDisabled(), false);
    await page.getByRole("button", { name: "Cancel" }).click();
  });
  await step("a line that is too slow for a piece", async () => {
    const rows = Array.from({ length: 3000 }, (_, i) => `seen,${new Date(Date.UTC(2026, 0, 31) + i * 1000).toISOString()},u${i % 50},${"n".repeat(400)}`);
    const sizes = [];
    await page.route(/\/pieces\?/, (r) => {
      const { length } = r.request().postDataBuffer();
      sizes.push(length);
      return length > 600_000 ? r.fulfill({ status: 408, json: { error: { code: "timeout", message: "the request did not come in time" } } }) : r.continue();
    });
    await page.goto(`${url}/imports`);
    await page.getByLabel(/^Choose /).setInputFiles({ name: "slow.csv", mimeType: "text/csv", buffer: Buffer.from(["event,time,user_id,note", ...rows, ""].join("\n")) });
    await page.getByRole("button", { name: "Start the import" }).click();
    await page.getByText("done", { exact: true }).waitFor();
    assert.equal(sizes[0], 1 << 20);
    assert.equal(sizes[1], 1 << 19);
    await page.getByText("In the database now").waitFor();
    assert.equal(await page.getByText("There before").count(), 0);
    await page.unroute(/\/pieces\?/);
    forgive(/status of 408/);
  });
  await browser.close();
})().catch((e) => {
  console.log(`FAIL ${e.stack}`);
  process.exit(1);
});
