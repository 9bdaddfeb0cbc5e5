UPDATE sends SET first_open = ?, first_human_open = ?, first_click = ?, first_human_click = ?, clicks = ? WHERE message = ? AND number = ?
