SELECT message, remaining FROM bodies WHERE n = 0 AND message IN ($NAMES)
