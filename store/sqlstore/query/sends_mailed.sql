SELECT message, number, part, to_address, tags, metadata, journey, step, variant, user_part, user_number, state, updated, first_open, first_human_open, first_click, first_human_click, clicks
FROM sends WHERE $ONE = ? AND $OTHER IN ($NAMES)
