SELECT message, data FROM bodies WHERE message IN ($NAMES) ORDER BY message, n
