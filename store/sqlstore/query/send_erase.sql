UPDATE sends SET to_address = '', user_ref = '', metadata = '', reply = '', life = ? WHERE message = ? AND number = ?
