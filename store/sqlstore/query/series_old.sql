SELECT DISTINCT app_id, name, kind FROM $TABLE WHERE bucket < ? LIMIT ?
