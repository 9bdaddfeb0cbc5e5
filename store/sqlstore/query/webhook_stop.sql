UPDATE webhooks SET status = ?, reason = ?, updated = ? WHERE id = ? AND revision = ? AND status = 'on'
