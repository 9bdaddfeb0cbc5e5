SELECT message, number, part, to_address, tags, journey, step, user_part, user_number FROM sends WHERE number = ? AND message IN ($NAMES)
