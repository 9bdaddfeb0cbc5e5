SELECT message, number, to_address, tags, metadata, journey, step, variant FROM sends WHERE $ONE = ? AND $OTHER IN ($NAMES)
