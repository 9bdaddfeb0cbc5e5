DELETE FROM webhooks WHERE id = ?
