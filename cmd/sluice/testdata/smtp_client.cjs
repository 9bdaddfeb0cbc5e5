// Hands in mail by nodemailer, pooled: HOST PORT KEY CERTIFICATE COUNT. Without a
// certificate there is no TLS.
const nodemailer = require("nodemailer");
const fs = require("fs");

const [host, port, key, certificate, count] = process.argv.slice(2);
const transport = nodemailer.createTransport({
  host, port: Number(port), greetingTimeout: 240_000, pool: true, maxConnections: 3, auth: { user: "node", pass: key },
  ...(certificate && { requireTLS: true, tls: { ca: fs.readFileSync(certificate) } }),
});

// The database of a busy machine may not tell of a key in time: a client is to come again.
async function send(mail) {
  for (const end = Date.now() + 240_000; ; await new Promise((done) => setTimeout(done, 100))) {
    try {
      return await transport.sendMail(mail);
    } catch (e) {
      if (!String(e.response).includes("Keys cannot be checked now") || Date.now() > end) throw e;
    }
  }
}

async function main() {
  const all = [];
  for (let i = 0; i < Number(count); i++) {
    all.push(send({
      from: '"Jürgen, the shop" <shop@example.com>', to: `nodemailer-${i}@example.com`, bcc: "nodemailer-bcc@example.com", subject: `Grüße ${i} 🌍`,
      text: "Hello\n.\n..two dots\nend, öäü\n", html: "<p>Hello €</p>".repeat(500), headers: { "X-Sluice-Tag": "nodemailer, für" },
      attachments: [{ filename: "ü.bin", content: Buffer.alloc(10000, 0x0a) }],
    }));
  }
  for (const info of await Promise.all(all)) {
    if (!/^250 2\.0\.0 Accepted as [0-9a-f]{32}$/.test(info.response) || info.rejected.length) throw new Error(JSON.stringify(info));
  }
  transport.close();
  console.log("done");
}

main().catch((e) => { console.error(e); process.exit(1); });
