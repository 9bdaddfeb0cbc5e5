SELECT COUNT(*) FROM segments
