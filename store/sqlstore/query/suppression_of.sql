SELECT $COLUMNS FROM suppressions WHERE entry IN ($NAMES)
