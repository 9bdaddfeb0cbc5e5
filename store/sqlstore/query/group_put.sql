INSERT INTO subscription_groups (id, name, description, is_public, sort, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description, is_public = excluded.is_public, sort = excluded.sort, updated = excluded.updated
