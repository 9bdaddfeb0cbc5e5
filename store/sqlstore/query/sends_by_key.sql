SELECT $COLUMNS FROM sends WHERE number = ? AND message IN ($NAMES)
