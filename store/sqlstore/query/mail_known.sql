SELECT user_number$ANSWERS FROM sends WHERE user_part = ? AND user_number IN ($NAMES) AND ($ANY) GROUP BY user_number
