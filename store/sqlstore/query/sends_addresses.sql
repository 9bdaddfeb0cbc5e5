SELECT message, number, to_address FROM sends WHERE message IN ($NAMES)
