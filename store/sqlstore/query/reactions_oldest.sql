SELECT bucket FROM reactions WHERE bucket < ? ORDER BY bucket LIMIT 1
