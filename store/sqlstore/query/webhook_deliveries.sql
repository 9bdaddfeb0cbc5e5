SELECT slot, number, message, at, part, events, attempt, outcome, status, error, took FROM webhook_deliveries WHERE webhook = ? ORDER BY number DESC LIMIT ?
