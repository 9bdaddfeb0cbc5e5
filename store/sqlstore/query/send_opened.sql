UPDATE sends SET first_open = ? WHERE message = ? AND number = ? AND first_open IS NULL
