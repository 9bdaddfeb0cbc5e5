SELECT id FROM segments WHERE name = ? AND id <> ?
