INSERT INTO webhooks (id, url, types, format, batch, status, reason, revision, secret, secret_mark, rotated, failing, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
