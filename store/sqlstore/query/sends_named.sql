SELECT $COLUMNS FROM sends WHERE message > ? AND message <= ? AND (user_ref IN ($NAMES) OR LOWER(to_address) IN ($ADDRESSES)$LIKE) ORDER BY message, number
