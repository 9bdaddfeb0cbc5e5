SELECT stops FROM mail_stops WHERE id = 1
