SELECT COUNT(*) FROM webhooks
