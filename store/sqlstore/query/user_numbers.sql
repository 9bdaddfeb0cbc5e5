SELECT part, last_user, last_forward FROM user_numbers WHERE part IN ($NAMES)
