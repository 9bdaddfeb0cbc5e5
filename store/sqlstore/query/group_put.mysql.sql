INSERT INTO subscription_groups (id, name, description, is_public, sort, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE name = VALUES(name), description = VALUES(description), is_public = VALUES(is_public), sort = VALUES(sort), updated = VALUES(updated)
