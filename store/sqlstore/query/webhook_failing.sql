UPDATE webhooks SET failing = ? WHERE id = ?
