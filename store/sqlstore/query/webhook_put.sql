UPDATE webhooks SET url = ?, types = ?, format = ?, batch = ?, status = ?, reason = ?, revision = ?, secret = ?, secret_mark = ?, rotated = ?, failing = ?, updated = ? WHERE id = ? AND revision = ?
