DELETE FROM webhook_deliveries WHERE webhook = ?
