SELECT message, number, to_address FROM sends WHERE message IN ($NAMES) AND number IN (0, 1)
