SELECT message, number, part, to_address, tags, metadata, journey, step, variant, clicks FROM sends WHERE $ONE = ? AND $OTHER IN ($NAMES)
