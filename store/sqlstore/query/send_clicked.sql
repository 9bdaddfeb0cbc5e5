UPDATE sends SET first_click = ? WHERE message = ? AND number = ? AND first_click IS NULL
