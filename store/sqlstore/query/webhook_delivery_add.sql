INSERT INTO webhook_deliveries (webhook, slot, number, message, at, part, events, attempt, outcome, status, error, took) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
