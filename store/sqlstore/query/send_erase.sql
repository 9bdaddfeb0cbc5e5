UPDATE sends SET to_address = '', user_ref = '', metadata = '', reply = '', user_part = NULL, user_number = NULL, life = ? WHERE message = ? AND number = ?
