DELETE FROM bodies WHERE recipients <= 1 AND message IN ($NAMES)
