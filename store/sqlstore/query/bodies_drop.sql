DELETE FROM bodies WHERE message IN ($NAMES)
