SELECT $COLUMNS FROM sends WHERE message = ? ORDER BY number
