SELECT revision FROM webhooks WHERE id = ?
