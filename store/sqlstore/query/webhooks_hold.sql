UPDATE webhooks SET status = 'restored', reason = ?, updated = ? WHERE status = 'on'
