UPDATE webhook_lanes SET pos_major = ?, pos_minor = ?, item = ?, to_major = ?, to_minor = ?, to_item = ?, attempts = ?, since = ?, due = ?
WHERE webhook = ? AND part = ? AND pos_major = ? AND pos_minor = ? AND item = ? AND to_major = ? AND to_minor = ? AND to_item = ? AND attempts = ?
