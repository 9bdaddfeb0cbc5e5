SELECT revision FROM webhooks WHERE id = ? FOR UPDATE
