DELETE FROM webhook_lanes WHERE webhook = ?
